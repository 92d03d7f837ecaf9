"""Credentials: files that hold them, what tokens look like; what is found is never quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from builder.core.audit.layer import Image
from builder.core.audit.tree import Tree
from builder.core.finding import Finding
from builder.core.keys import finding

LARGEST = 1 << 20
"""Bytes of a file that is looked into."""

_NAMES = {
    "*.netrc": "passwords of hosts",
    "*.git-credentials": "passwords of git hosts",
    "*.pypirc": "passwords of package indexes",
    "*.docker/config.json": "logins of registries",
    "*.dockercfg": "logins of registries",
    "*.aws/credentials": "keys of AWS",
    "*.kube/config": "keys of a cluster",
    "*.ssh/id_*": "a private key",
    "*huggingface/token": "a token of Hugging Face",
    "*huggingface/stored_tokens": "tokens of Hugging Face",
}
_TOKENS: Mapping[str, re.Pattern[str]] = {
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----"),
    "a token of Hugging Face": re.compile(r"\bhf_[A-Za-z0-9]{30,}"),
    "a token of GitHub": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{60,})"),
    "a token of GitLab": re.compile(r"\bglpat-[\w-]{20,}"),
    "a token of PyPI": re.compile(r"\bpypi-[A-Za-z0-9_-]{60,}"),
    "a key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of Slack": re.compile(r"\bxox[abpr]-[\w-]{20,}"),
    "a password in an address": re.compile(
        r"\b[a-z][a-z0-9+.-]*://[^/\s:@\"']+:[^/\s@\"'${}]{3,}@"
    ),
}
_PUBLISHED = ("usr/lib/", "usr/share/", "usr/include/", "var/lib/dpkg/", "etc/ssl/certs/")
"""Where distributions put files; looked into only above a base that is known."""
_VARIABLE = re.compile(
    r"(?:^|\b)(?P<name>[A-Z][A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY|CREDENTIALS))"
    r"=(?!\s|$|\"\"|''|\$)(?P<value>[^\s\"']{4,})"
)
_HARMLESS = re.compile(r"(?i)/.*|true|false|none|null|changeme|[a-z-]*example[a-z-]*|\*+|<.*>")


def suspects(tree: Tree) -> set[tuple[int, str]]:
    """Name the files whose bytes should be looked into, as layer and path.

    Those no package vouches for, above the base where that is known, visible or not: what a
    package index or Debian published is no secret of anybody here.
    """
    image = tree.image
    if image is None:
        return set()
    found = {
        (image.origin[path], path)
        for path, facts in tree.files.items()
        if path not in tree.owners and 0 < facts.size <= LARGEST
    }
    found |= {(one.layer, one.path) for one in image.hidden if 0 < one.facts.size <= LARGEST}
    known = tree.base_layers > 0
    return {
        (layer, path)
        for layer, path in found
        if layer >= tree.base_layers
        and not path.endswith(".pyc")
        and (known or not path.startswith(_PUBLISHED))
    }


def check_secrets(tree: Tree, contents: Mapping[tuple[int, str], bytes]) -> list[Finding]:
    """Find credentials in layers, in the config's variables and labels, and in its history."""
    image = tree.image
    if image is None:
        return []
    found: dict[tuple[str, str], Finding] = {}
    for layer, path in sorted({*suspects(tree), *_named(image)}):
        data = contents.get((layer, path), b"")
        what = _by_name(path) or _by_content(data)
        if what:
            deleted = "" if image.origin.get(path) == layer else ", hidden by a later one"
            found[f"/{path}", what] = finding(
                "secret-in-layer",
                subject=f"/{path}",
                evidence=f"{what}, in layer {layer + 1} of {len(image.layers)}{deleted}",
            )
    variables = [f"{name}={value}" for name, value in image.environment.items()]
    labels = [f"{name}={value}" for name, value in image.labels.items()]
    for place, texts in (
        ("the image's environment", variables),
        ("the image's labels", labels),
        ("the image's history", image.history),
    ):
        for what in sorted(_in_texts(texts)):
            found[place, what] = finding(
                "secret-in-layer", subject=place, evidence=f"{what}; its value is not shown here"
            )
    return list(found.values())


def _named(image: Image) -> set[tuple[int, str]]:
    """Files called as those that hold credentials, in any layer."""
    return {
        (number, path)
        for number, layer in enumerate(image.layers)
        for path, facts in layer.files.items()
        if facts.size and _by_name(path)
    }


def _by_name(path: str) -> str:
    return next(
        (
            what
            for pattern, what in _NAMES.items()
            if fnmatchcase(f"/{path}", pattern) and not path.endswith((".pub", ".py"))
        ),
        "",
    )


def _by_content(data: bytes) -> str:
    if not data or b"\0" in data[:1024]:
        return ""
    return next(iter(sorted(_in_texts([data.decode(errors="replace")]))), "")


def _in_texts(texts: Iterable[str]) -> set[str]:
    found = set()
    for text in texts:
        found |= {what for what, pattern in _TOKENS.items() if pattern.search(text)}
        found |= {
            f"the variable {match['name']}"
            for match in _VARIABLE.finditer(text)
            if not _HARMLESS.fullmatch(match["value"])
        }
    return found
