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
_TABLES = ("filter", "nat", "mangle", "raw", "security")
"""What iptables calls its tables; others belong to others."""
_PASSES = "policy accept;"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: its chains, and its rules in order."""

    policies: Mapping[str, str]
    """Chain → policy; `-` for a chain that somebody made."""
    rules: tuple[str, ...]
    """As `-A CHAIN …`."""


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


def parse_nft(listing: str) -> dict[str, dict[str, bool]]:
    """Read `nft list ruleset`: table, as `ip nat` → chain or other object → whether it is idle.

    Idle is a chain of the kernel's hooks without rules that lets everything pass.
    """
    found: dict[str, dict[str, bool]] = {}
    table = name = ""
    inside: list[str] = []
    for line in listing.splitlines():
        words = line.split()
        if line.startswith("table "):
            table = " ".join(words[1:3])
            found[table] = {}
        elif line.startswith("\t}"):
            hook = [row for row in inside if row.startswith("type ")]
            found[table][name] = inside == hook and bool(hook) and hook[0].endswith(_PASSES)
        elif line.startswith("\t\t"):
            inside.append(line.strip())
        elif line.startswith("\t") and words and words[-1] == "{":
            name, inside = words[1], []
    return found


def plan_nft(before: Iterable[str], listing: str) -> str:
    """Return what `nft --file` shall do to drop what iptables made and left idle; "" if nothing.

    `before` are the names that `nft_names` gave.
    """
    known = set(before)
    lines = []
    for table, chains in parse_nft(listing).items():
        family, _, name = table.partition(" ")
        if family not in ("ip", "ip6") or name not in _TABLES:
            continue
        if table not in known and all(chains.values()):
            lines.append(f"delete table {table}")
            continue
        lines += [
            f"delete chain {table} {chain}"
            for chain, idle in chains.items()
            if idle and f"{table} {chain}" not in known
        ]
    return "".join(line + "\n" for line in lines)


def nft_names(listing: str) -> list[str]:
    """Names of all tables and their chains, as `ip nat` and `ip nat OUTPUT`."""
    tables = parse_nft(listing)
    return [*tables, *(f"{table} {chain}" for table, chains in tables.items() for chain in chains)]
