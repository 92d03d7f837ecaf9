"""Free subnets, and what is given back after the engine (core/network.py)."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from builder.core.network import (
    choose_subnet,
    our_bridges,
    parse_fib_trie,
    parse_nameservers,
    plan_sysctls,
    watched_sysctls,
)

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.8.0.0/16 2 0 2
        |-- 10.8.0.0
           /16 universe UNICAST
        |-- 10.8.0.7
           /32 host LOCAL
Local:
  +-- 127.0.0.0/8 2 0 2
     |-- 127.0.0.0
        /8 host LOCAL
Id 220:
     |-- 172.16.0.0
        /12 universe UNICAST
"""


def test_every_table_of_the_trie_is_read() -> None:
    """Routes of policy tables count, inner nodes and the default route do not."""
    expected = {"10.8.0.0/16", "10.8.0.7/32", "127.0.0.0/8", "172.16.0.0/12"}
    assert expected == {str(network) for network in parse_fib_trie(FIB_TRIE)}


def test_name_servers_are_used_addresses() -> None:
    """IPv6 ones and comments are none of an IPv4 bridge's business."""
    text = "# nameserver 1.1.1.1\nsearch corp\nnameserver 172.31.255.53\nnameserver fd00::1\n"
    assert {IPv4Network("172.31.255.53/32")} == parse_nameservers(text)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ((), "172.31.255.0/24"),
        (("172.31.255.53/32",), "172.31.191.0/24"),
        (("172.16.0.0/12",), "192.168.255.0/24"),
        (("172.16.0.0/12", "192.168.0.0/16"), "10.255.255.0/24"),
        (("172.16.0.0/12", "192.168.0.0/16", "10.0.0.0/8"), "None"),
    ],
)
def test_a_subnet_that_nothing_routes_is_chosen(used: tuple[str, ...], expected: str) -> None:
    """From one private block after the other; none when all are taken."""
    assert expected == str(choose_subnet(map(IPv4Network, used)))


def test_bridges_are_ours_only_when_they_are_new() -> None:
    """A Docker network's bridge that was there before belongs to somebody else."""
    before = ["br-000000000000", "docker0", "eth0"]
    now = [*before, "br-123456789abc", "nl-1234abcd", "virbr0", "br-lan"]
    assert {"br-123456789abc", "nl-1234abcd"} == our_bridges("nl-1234abcd", before, now)


def test_settings_come_back_in_the_order_that_holds() -> None:
    """Forwarding first: it resets `accept_redirects`, which therefore follows."""
    before = {
        "net/ipv4/conf/all/accept_redirects": "0",
        "net/ipv4/conf/eth0/forwarding": "0",
        "net/ipv4/ip_forward": "0",
        "net/ipv6/conf/all/forwarding": "0",
        "net/ipv6/conf/eth0/forwarding": "1",
        "kernel/keys/root_maxkeys": "200",
        "net/bridge/bridge-nf-call-iptables": "1",
    }
    now = {
        **before,
        "net/ipv4/ip_forward": "1",
        "net/ipv4/conf/eth0/forwarding": "1",
        "kernel/keys/root_maxkeys": "1000000",
    }
    assert (
        ("net/ipv4/ip_forward", "0"),
        ("net/ipv4/conf/all/accept_redirects", "0"),
        ("net/ipv4/conf/eth0/forwarding", "0"),
        ("kernel/keys/root_maxkeys", "200"),
    ) == plan_sysctls(before, now)


def test_settings_of_interfaces_are_left_alone_where_forwarding_stayed() -> None:
    """Somebody else changed them: forwarding was on before and is on now."""
    before = {"net/ipv4/ip_forward": "1", "net/ipv4/conf/eth0/forwarding": "1"}
    now = {**before, "net/ipv4/conf/eth0/forwarding": "0"}
    assert () == plan_sysctls(before, now)


def test_interfaces_that_are_gone_are_passed_over() -> None:
    """A setting that has no file any more cannot be written."""
    before = {"net/ipv4/ip_forward": "0", "net/ipv4/conf/eth9/forwarding": "0"}
    assert (("net/ipv4/ip_forward", "0"),) == plan_sysctls(before, {"net/ipv4/ip_forward": "1"})


def test_each_interface_is_watched() -> None:
    """Both switches, and the settings the kernel ties to them."""
    watched = watched_sysctls(["eth0"])
    assert {
        "net/ipv4/ip_forward",
        "net/ipv4/conf/eth0/accept_redirects",
        "net/ipv4/conf/default/forwarding",
        "net/ipv6/conf/all/forwarding",
        "net/ipv6/conf/eth0/forwarding",
    } <= set(watched)
