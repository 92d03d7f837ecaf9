"""A small Debian archive in a folder, made of real .debs: what mirrors are, without a network."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from builder.core.debian import AptSource, suites_of

_HASHES = {"SHA256": "sha256", "MD5sum": "md5"}


@dataclass(kw_only=True)
class LocalArchive:
    """`pool/` and `dists/` as on a mirror; unsigned, so apt must be told to trust it."""

    folder: Path
    codename: str = "bookworm"
    architecture: str = "amd64"
    hash_field: str = "SHA256"
    """How the index names the hash of packages that are added from now on."""
    _indexes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[AptSource, ...]:
        """The archive as apt is given it."""
        suites = suites_of(self.codename)
        return (AptSource(uri=f"file:{self.folder}", suites=suites, trusted=True),)

    @property
    def addresses(self) -> dict[str, tuple[str, ...]]:
        """Suite → addresses, as `fetch_debs` takes them."""
        return dict.fromkeys(suites_of(self.codename), (f"file:{self.folder}",))

    def add(
        self,
        name: str,
        version: str,
        *,
        suite: str = "",
        fields: str = "",
        files: dict[str, str] | None = None,
    ) -> Path:
        """Build a .deb, put it into the pool and into a suite, in the place of its older version.

        `fields` are more lines of control data.
        """
        suite = suite or self.codename
        tree = self.folder / "build" / f"{name}_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: {self.architecture}\n"
            f"Maintainer: Nobody <nobody@example.org>\nInstalled-Size: 1\n{fields}"
            f"Description: {name}\n of the tests\n"
        )
        (tree / "DEBIAN/control").write_text(control)
        for path, text in (files or {}).items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        file = f"{name}_{version.rsplit(':', maxsplit=1)[-1]}_{self.architecture}.deb"
        path = f"pool/main/{name[0]}/{name}/{file}"
        deb = self.folder / path
        deb.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "--build", tree, deb],
            check=True,
            capture_output=True,
        )
        data = deb.read_bytes()
        self._indexes.setdefault(suite, {})[name] = (
            f"{control}Filename: {path}\nSize: {len(data)}\n"
            f"{self.hash_field}: {hashlib.new(_HASHES[self.hash_field], data).hexdigest()}\n"
        )
        self.publish()
        return deb

    def publish(self) -> None:
        """Write the indexes of all suites."""
        for suite in suites_of(self.codename):
            dist = self.folder / "dists" / suite
            name = f"main/binary-{self.architecture}/Packages"
            index = "\n".join(self._indexes.get(suite, {}).values()).encode()
            (dist / name).parent.mkdir(parents=True, exist_ok=True)
            (dist / name).write_bytes(index)
            (dist / "Release").write_text(
                f"Origin: Tests\nSuite: {suite}\nCodename: {suite}\n"
                f"Architectures: {self.architecture}\nComponents: main\n"
                "Date: Tue, 01 Jan 2030 00:00:00 UTC\nSHA256:\n"
                f" {hashlib.sha256(index).hexdigest()} {len(index)} {name}\n"
            )
