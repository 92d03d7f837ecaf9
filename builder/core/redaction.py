"""Secrets out of texts that are written down: keys in arguments, tokens, credentials in URLs."""

from __future__ import annotations

import re

from builder.errors import redacted

_HIDDEN = "[redacted]"
_SECRETS = (
    # vLLM's own line of arguments has 'api_key': ['…'].
    r"""(?P<kept>['"]?\b(?i:api[_-]?key)['"]?\s*[:=]\s*)(?:\[[^\]]*\]?|'[^']*'?|"[^"]*"?)""",
    r"(?P<kept>--api-key[= ])\S+",
    r"(?P<kept>\b[A-Z][A-Z0-9_]*(?:TOKEN|API_KEY|SECRET|PASSWORD)=)(?!\$)\S+",
    r"(?P<kept>\b(?i:bearer)\s+)[\w.~+/=-]{4,}",
    r"(?P<kept>\b)(?:hf|sk|ghp|gho|glpat)[_-][A-Za-z0-9_-]{8,}",
)
_PATTERNS = tuple(re.compile(text) for text in _SECRETS)


def redact(text: str) -> str:
    """Return the text with every secret that is known by its shape taken out."""
    text = redacted(text)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<kept>{_HIDDEN}", text)
    return text
