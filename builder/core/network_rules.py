"""Packet filter rules as iptables-save(8) prints them, and how to take Docker's out again."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network

# moby: libnetwork/iptables and libnetwork/drivers/bridge; releases differ in which they make.
_CHAIN = re.compile(r"DOCKER(-[A-Z0-9-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: its chains, and its rules in order."""

    policies: Mapping[str, str]
    """Chain → policy; `-` for a chain that somebody made."""
    rules: tuple[str, ...]
    """As `-A CHAIN …`."""

    @property
    def pristine(self) -> bool:
        """Whether it does nothing."""
        return not self.rules and set(self.policies.values()) <= {"ACCEPT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """By what our rules are recognised beside their chains."""

    bridges: frozenset[str]
    subnets: frozenset[IPv4Network]


def parse_rules(saved: str) -> dict[str, Table]:
    """Read the output of iptables-save; counters and comments are dropped."""
    found: dict[str, Table] = {}
    name, policies, rules = "", dict[str, str](), list[str]()
    for line in saved.splitlines():
        if line.startswith("*"):
            name, policies, rules = line[1:].strip(), {}, []
        elif line.startswith(":"):
            chain, policy = line[1:].split()[:2]
            policies[chain] = policy
        elif line.startswith("-A "):
            rules.append(line)
        elif line == "COMMIT":
            found[name] = Table(policies=policies, rules=tuple(rules))
    return found


def undo(before: str, now: str, ours: Ours) -> str:
    """Return what iptables-restore --noflush shall do to take out what is ours; "" if nothing.

    Rules that others added meanwhile stay, rules that others removed stay away. Leftovers of an
    earlier dockerd come back as they were found.
    """
    found = parse_rules(before)
    parts = []
    for name, table in parse_rules(now).items():
        lines = _undo_table(found.get(name, Table(policies={}, rules=())), table, ours)
        if lines:
            parts.append("\n".join([f"*{name}", *lines, "COMMIT"]) + "\n")
    return "".join(parts)


def _undo_table(before: Table, now: Table, ours: Ours) -> list[str]:
    docker = {chain for chain in now.policies if _CHAIN.fullmatch(chain)}
    made = sorted(docker - before.policies.keys())
    had = Counter(before.rules)
    lines: list[str] = []
    was = before.policies.get("FORWARD", "ACCEPT")
    if now.policies.get("FORWARD") == "DROP" != was:
        lines.append(f"-P FORWARD {was}")
    kept: list[str] = []
    for rule in now.rules:
        if had[rule] > 0:
            had[rule] -= 1
            kept.append(rule)
        elif _chain_of(rule) in docker:
            continue
        elif _is_ours(rule, docker, ours):
            lines.append("-D" + rule.removeprefix("-A"))
        else:
            kept.append(rule)
    lines += [f"-F {chain}" for chain in sorted(docker)]
    lines += [f"-X {chain}" for chain in made]
    return [*lines, *_leftovers(before, docker, kept)]


def _leftovers(before: Table, docker: set[str], kept: list[str]) -> list[str]:
    """Put back what an earlier dockerd had left and ours has cleared away."""
    known = {chain for chain in before.policies if _CHAIN.fullmatch(chain)}
    lines = [f"-N {chain}" for chain in sorted(known - docker)]
    lines += [rule for rule in before.rules if _chain_of(rule) in known]
    there = Counter(kept)
    for rule in before.rules:
        chain = _chain_of(rule)
        if there[rule] > 0:
            there[rule] -= 1
        elif chain not in known and _target_of(rule) in known:
            same = [other for other in before.rules if _chain_of(other) == chain]
            position = min(same.index(rule), sum(_chain_of(other) == chain for other in kept))
            kept.append(rule)
            lines.append(f"-I {chain} {position + 1} " + rule.split(" ", 2)[2])
    return lines


def _is_ours(rule: str, docker: set[str], ours: Ours) -> bool:
    if _target_of(rule) in docker:
        return True
    if ours.bridges & {_option(rule, "-i"), _option(rule, "-o")}:
        return True
    # Masquerading of a network, and of one container's published port.
    source = _option(rule, "-s")
    return bool(source) and _target_of(rule) == "MASQUERADE" and _inside(source, ours.subnets)


def _inside(source: str, subnets: Iterable[IPv4Network]) -> bool:
    network = ip_network(source, strict=False)
    return isinstance(network, IPv4Network) and any(network.subnet_of(subnet) for subnet in subnets)


def _chain_of(rule: str) -> str:
    return rule.split(" ", 2)[1]


def _target_of(rule: str) -> str:
    return _option(rule, "-j") or _option(rule, "-g")


def _option(rule: str, name: str) -> str:
    words = shlex.split(rule)
    return words[words.index(name) + 1] if name in words[:-1] else ""


def is_empty_nft_table(listing: str) -> bool:
    """Whether a table of `nft list table` holds nothing but chains that let everything pass."""
    inside = [line.strip() for line in listing.splitlines()[1:]]
    allowed = re.compile(r"|\}|#.*|chain \S+ \{|type \S+ hook .*policy accept;")
    return all(allowed.fullmatch(line) for line in inside)
