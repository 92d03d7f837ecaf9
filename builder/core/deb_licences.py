"""Licences of Debian's packages, as their copyright files say them.

Most are machine-readable (DEP-5, "copyright-format 1.0"): the first line of each `License` field is
a short name or an expression of such. Others are prose, of which the standard texts that they point
at are known (`/usr/share/common-licenses/GPL-3`, Policy §12.5).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from builder.core.control import parse_stanzas

VERSION = 1
"""Raised whenever the same file is read otherwise than before."""
DOCUMENTATION = "usr/share/doc/"
"""Where packages have their copyright files (Policy §12.5)."""
_COMMON = re.compile(r"/usr/share/common-licenses/(?P<name>[A-Za-z0-9.+-]*[A-Za-z0-9])")
_MACHINE_READABLE = re.compile(r"(?i:Format(?:-Specification)?:.*(?:copyright-format|dep5))")
_GNU = re.compile(
    r"(?P<family>A?GPL|LGPL|GFDL)-(?P<number>\d)(?P<minor>\.\d)?(?:\.0)?(?P<later>\+?)"
)
_SPDX = {
    "apache-2.0": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "artistic-2.0": "Artistic-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "bsl-1.0": "BSL-1.0",
    "cc0-1.0": "CC0-1.0",
    "expat": "MIT",
    "isc": "ISC",
    "mpl-1.1": "MPL-1.1",
    "mpl-2.0": "MPL-2.0",
    "zlib": "Zlib",
}
"""Debian's short names (DEP-5, "Short names") that mean one licence of SPDX's list."""
_HOPS = 8


def deb_licences(text: str) -> tuple[str, ...]:
    """Name the licences of one copyright file, sorted: SPDX ids where they are, else its own words.

    Empty when it names none in a form that can be read. Of prose nothing is concluded: `GPL-3` may
    mean that version alone or a later one.
    """
    if not _MACHINE_READABLE.match(text):
        return tuple(sorted({match["name"] for match in _COMMON.finditer(text)}))
    found = set()
    for stanza in parse_stanzas(text):
        # A paragraph of a licence alone holds its text; those of files say whose it is.
        if "Files" in stanza or "Format" in stanza:
            short = stanza.get("License", "").partition("\n")[0].strip()
            found |= {spdx(short)} if short else set()
    return tuple(sorted(found))


def spdx(name: str) -> str:
    """Return the SPDX id of a short name; other names, and expressions, stay as they are."""
    if match := _GNU.fullmatch(name):
        later = "or-later" if match["later"] else "only"
        return f"{match['family']}-{match['number']}{match['minor'] or '.0'}-{later}"
    return _SPDX.get(name.lower(), name)


def copyright_path(package: str, links: Mapping[str, str]) -> str:
    """Return where a package's copyright file really is: packages of one source share a folder.

    `links`: path below the root → target, of the symbolic links in DOCUMENTATION.
    """
    path = f"{DOCUMENTATION}{package}/copyright"
    for _ in range(_HOPS):
        folder = posixpath.dirname(path)
        if path in links:
            path = _beside(path, links[path])
        elif folder in links:
            path = f"{_beside(folder, links[folder])}/copyright"
        else:
            break
    return path


def _beside(path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(path), target)).lstrip("/")
