"""This machine's IPv4 network: bridges, packet filter, settings below /proc/sys."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from builder.core import network_rules
from builder.core.engine import tool
from builder.core.network import parse_fib_trie, parse_nameservers
from builder.core.network_rules import Ours
from builder.edge import process
from builder.errors import CommandFailed

_SYSCTLS = Path("/proc/sys")
_PROGRAMS = {4: "iptables", 6: "ip6tables"}

# linux/sockios.h; there is no `ip` on a slim system.
_GET_ADDRESS, _SET_ADDRESS = 0x8915, 0x8916
_GET_MASK, _SET_MASK = 0x891B, 0x891C
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_ADD_BRIDGE, _DELETE_BRIDGE = 0x89A0, 0x89A1
_UP = 1


def used_networks() -> frozenset[IPv4Network]:
    """Read all that this machine routes or asks names from."""
    found = parse_fib_trie(Path("/proc/net/fib_trie").read_text())
    with suppress(OSError):
        found |= parse_nameservers(Path("/etc/resolv.conf").read_text(errors="replace"))
    return found


def namespace() -> str:
    """Name our network namespace (namespaces(7))."""
    return str(Path("/proc/self/ns/net").readlink())


def links() -> list[str]:
    """Names of all network interfaces of our namespace."""
    return sorted(name for _, name in socket.if_nameindex())


def add_bridge(name: str, subnet: IPv4Network) -> None:
    """Make a bridge that has the first address of a subnet, and switch it on.

    Raises OSError when the kernel refuses.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _ADD_BRIDGE, name.encode() + b"\0")
        fcntl.ioctl(control, _SET_ADDRESS, _address_request(name, next(subnet.hosts())))
        fcntl.ioctl(control, _SET_MASK, _address_request(name, subnet.netmask))
        _switch(control, name, on=True)


def remove_bridge(name: str) -> None:
    """Take a bridge away; nothing happens where it is gone already."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control, suppress(OSError):
        _switch(control, name, on=False)
        fcntl.ioctl(control, _DELETE_BRIDGE, name.encode() + b"\0")


def subnet_of(name: str) -> IPv4Network | None:
    """Read the subnet of an interface's own address; None where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            request = _address_request(name, IPv4Address(0))
            address = fcntl.ioctl(control, _GET_ADDRESS, request)[20:24]
            mask = fcntl.ioctl(control, _GET_MASK, request)[20:24]
        except OSError:
            return None
    return IPv4Network(f"{IPv4Address(address)}/{IPv4Address(mask)}", strict=False)


def _switch(control: socket.socket, name: str, *, on: bool) -> None:
    request = struct.pack("16sH14x", name.encode(), 0)
    (flags,) = struct.unpack_from("H", fcntl.ioctl(control, _GET_FLAGS, request), 16)
    flags = flags | _UP if on else flags & ~_UP
    fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", name.encode(), flags))


def _address_request(name: str, address: IPv4Address) -> bytes:
    return struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, address.packed)


def read_sysctls(keys: Iterable[str]) -> dict[str, str]:
    """Read settings below /proc/sys; those that are not there are left out."""
    found = {}
    for key in keys:
        with suppress(OSError):
            found[key] = (_SYSCTLS / key).read_text().strip()
    return found


def write_sysctls(plan: Iterable[tuple[str, str]]) -> None:
    """Write settings below /proc/sys in order; what is gone meanwhile is passed over."""
    for key, value in plan:
        with suppress(OSError):
            (_SYSCTLS / key).write_text(value + "\n")


def find_flavour() -> str:
    """Say which iptables this machine uses: its own program's, else the one with tables.

    `legacy` or `nft`; both work side by side, but rules of one are not seen by the other.
    """
    own = process.find("iptables")
    if own is not None:
        with suppress(CommandFailed):
            return "legacy" if "legacy" in process.run([own, "--version"]) else "nft"
    with suppress(OSError):
        if Path("/proc/net/ip_tables_names").read_text().strip():
            return "legacy"
    return "nft"


class PacketFilter:
    """The rules of our network namespace, by the unpacked iptables and nft."""

    def __init__(self, tools: Path, flavour: str, environment: Mapping[str, str]) -> None:
        self.tools = tools
        self.flavour = flavour
        """`nft` or `legacy`."""
        self.environment = environment

    def works(self) -> str:
        """Try whether the kernel knows the tables Docker needs; return why not, or ""."""
        try:
            for table in ("nat", "filter"):
                self._run(self._name(4), "--wait", "-t", table, "-S")
        except CommandFailed as error:
            return error.tail or error.what
        return ""

    def save(self) -> dict[int, str]:
        """Read all rules, by IP version; one without IPv6 has an empty text there."""
        found = {}
        for version in _PROGRAMS:
            try:
                found[version] = self._run(self._name(version) + "-save")
            except CommandFailed:
                found[version] = ""
        return found

    def undo(self, before: Mapping[int, str], ours: Ours) -> None:
        """Take Docker's rules out again, whole table by whole table.

        Raises CommandFailed when somebody changes the rules at every attempt.
        """
        for version in _PROGRAMS:
            restore = self._name(version) + "-restore"
            for last in (False, False, True):
                plan = network_rules.undo(before.get(version, ""), self.save()[version], ours)
                if not plan:
                    break
                try:
                    self._run(restore, "--wait", "--noflush", stdin=plan.encode())
                    break
                except CommandFailed:
                    if last:
                        raise

    def tables(self) -> list[str]:
        """Names of all nftables tables and chains; empty where the kernel has no nftables."""
        return network_rules.nft_names(self._ruleset())

    def drop_tables(self, before: Iterable[str]) -> None:
        """Delete what iptables made in nftables, was not there before and does nothing."""
        plan = network_rules.plan_nft(before, self._ruleset())
        if plan:
            self._run("nft", "--file", "-", stdin=plan.encode())

    def _ruleset(self) -> str:
        try:
            return self._run("nft", "list", "ruleset")
        except CommandFailed:
            return ""

    def _name(self, version: int) -> str:
        return f"{_PROGRAMS[version]}-{self.flavour}"

    def _run(self, name: str, *arguments: str, stdin: bytes | None = None) -> str:
        return process.run(
            [tool(self.tools, name), *arguments],
            environment={**os.environ, **self.environment},
            stdin=stdin,
        )
