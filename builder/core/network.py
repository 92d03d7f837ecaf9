"""A machine's IPv4 network as data: which subnet is free, and which settings to give back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network

from pydantic import BaseModel, ConfigDict

_ROUTED = re.compile(r"\|-- (?P<address>[0-9.]+)|^ +/(?P<length>\d+) (?P<scope>\S+) (?P<kind>\S+)")
_BRIDGE = re.compile(r"br-[0-9a-f]{12}")
_FORWARD = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


class FoundNetwork(BaseModel):
    """What the machine's network was before the first start; kept until all is given back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    boot: str
    """/proc/sys/kernel/random/boot_id: a reboot gives everything back by itself."""
    namespace: str
    """/proc/self/ns/net: all of this is true in one network namespace."""
    flavour: str
    """Which iptables: `nft` or `legacy`."""
    rules: dict[int, str]
    """IP version → output of iptables-save, ip6tables-save."""
    tables: list[str]
    """Names of nftables tables and chains, as `ip nat` and `ip nat OUTPUT`."""
    links: list[str]
    sysctls: dict[str, str]
    """Path below /proc/sys → value."""
    folders: list[str]
    """Folders outside our own that the engine makes and that were not there."""
    mounts: list[str]
    """Mount points of control groups that were mounted for the engine, in that order."""


def parse_fib_trie(text: str) -> frozenset[IPv4Network]:
    """Read all addresses and routes of /proc/net/fib_trie, of all tables; no default route."""
    found = set()
    address = ""
    for line in text.splitlines():
        match = _ROUTED.search(line)
        if match is None:
            continue
        if match["address"]:
            address = match["address"]
        elif int(match["length"]):
            found.add(IPv4Network(f"{address}/{match['length']}", strict=False))
    return frozenset(found)


def parse_nameservers(resolv_conf: str) -> frozenset[IPv4Network]:
    """Read the name servers of resolv.conf(5): traffic to them must not land on our bridge."""
    found = set()
    for line in resolv_conf.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and re.fullmatch(r"[0-9.]+", words[1]):
            found.add(IPv4Network(IPv4Address(words[1])))
    return frozenset(found)


def choose_subnet(used: Iterable[IPv4Network]) -> IPv4Network | None:
    """Choose a /24 of private addresses (RFC 1918) that nothing routes; None when all are."""
    taken = tuple(used)
    return next(
        (
            subnet
            for subnet in _candidates()
            if not any(subnet.overlaps(network) for network in taken)
        ),
        None,
    )


def _candidates() -> Iterator[IPv4Network]:
    # From the far ends: people number their networks, and Docker its own, from the near ones.
    for block in ("172.16.0.0/12", "192.168.0.0/16", "10.0.0.0/8"):
        network = IPv4Network(block)
        first, last = int(network.network_address), int(network.broadcast_address)
        for number in range(last - 255, first, -256 * 64):
            yield IPv4Network((number, 24))


def our_bridges(own: str, before: Iterable[str], now: Iterable[str]) -> frozenset[str]:
    """Name the bridges to remove: our own, and those made for Docker networks since."""
    known = set(before)
    made = {link for link in now if _BRIDGE.fullmatch(link) and link not in known}
    return frozenset(made | ({own} & set(now)))


def watched_sysctls(links: Iterable[str]) -> tuple[str, ...]:
    """Name what the engine may change below /proc/sys, itself or through the kernel.

    Switching forwarding sets `forwarding` of every interface and `accept_redirects` of IPv4
    (kernel: net/ipv4/devinet.c, inet_forward_change); bridge filtering and key quotas are set by
    dockerd itself (moby: bridge/setup_bridgenetfiltering.go, daemon/keys.go).
    """
    interfaces = ("all", "default", *sorted(links))
    return (
        *_FORWARD.values(),
        *(f"net/ipv4/conf/{name}/accept_redirects" for name in interfaces),
        *(f"net/ipv4/conf/{name}/forwarding" for name in interfaces),
        *(f"net/ipv6/conf/{name}/forwarding" for name in interfaces),
        "net/bridge/bridge-nf-call-iptables",
        "net/bridge/bridge-nf-call-ip6tables",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    )


def plan_sysctls(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Say what to write, in order; settings of interfaces only where forwarding was switched.

    Forwarding comes first, since switching it back sets the others once more.
    """
    plan: list[tuple[str, str]] = []
    for version, switch in _FORWARD.items():
        if switch in now and before.get(switch, now[switch]) != now[switch]:
            plan.append((switch, before[switch]))
            inside = f"net/ipv{version}/conf/"
            plan += [
                (key, value)
                for key, value in before.items()
                if key.startswith(inside) and key in now and key != switch
            ]
    plan += [
        (key, value)
        for key, value in before.items()
        if key.startswith(("net/bridge/", "kernel/")) and now.get(key, value) != value
    ]
    return tuple(plan)
