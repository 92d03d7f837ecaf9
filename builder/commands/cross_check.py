"""`nightlock lock IMAGE --cross-check`: another resolver, in the target's own interpreter."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from builder.commands.context import Context
from builder.commands.lock_image import Job
from builder.commands.lock_workshop import Workshop
from builder.core import second_opinion
from builder.core.assembly import LockedPlatform
from builder.core.finding import Finding
from builder.core.reference import is_loopback
from builder.core.second_opinion import PLACE, TOOLS, Ask, Method
from builder.core.spec import GENERAL, ImageSpec
from builder.edge import debs, mmdebstrap, rootfs, wheelhouse
from builder.edge.container import is_local
from builder.edge.engine import Engine, require_engine
from builder.edge.index import local_path
from builder.edge.opinion import Bench, native_platform
from builder.edge.rootfs import Base
from builder.edge.store import Store
from builder.edge.userconfig import PROXY_VARIABLES, UserConfig
from builder.edge.uv import netrc_text
from builder.errors import BadInput, CommandFailed, ToolMissing

_ENVIRONMENT = {
    "HOME": f"{PLACE}/home",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    # The machine's pip configuration is none of the container's: all that counts is said.
    "PIP_CONFIG_FILE": "/dev/null",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_DEFAULT_TIMEOUT": "60",
    "PIP_NO_INPUT": "1",
    "PIP_RETRIES": "8",
    "PYTHONPATH": f"{PLACE}/tools",
}
_CA = f"{PLACE}/ca.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOpinion:
    """Another resolver that is ready to be asked."""

    context: Context
    method: Method
    engine: Engine

    def differences(
        self, workshop: Workshop, job: Job, resolved: Mapping[str, LockedPlatform]
    ) -> list[Finding]:
        """Ask about each platform of an image; a finding for each package that differs.

        Raises CommandFailed when the other resolver fails for another reason than the packages,
        EngineError, and what fetching the base's .debs raises.
        """
        return [
            row
            for platform, locked in resolved.items()
            for row in self._differences(workshop, job.spec, platform, locked)
        ]

    def _differences(
        self, workshop: Workshop, spec: ImageSpec, platform: str, locked: LockedPlatform
    ) -> list[Finding]:
        label = f"asking {self.method} in a container of the base: {spec.name}, {platform}"
        with self.context.output.step(f"cross-check {spec.name} {platform}", label):
            base = _base(self.context, spec, locked)
            tools = _fetch_tools(self.context, spec.name, workshop)
            with (
                tempfile.TemporaryDirectory(prefix="nightlock-opinion-") as scratch,
                Bench(self.engine, base, platform) as bench,
            ):
                table = _Table(
                    opinion=self,
                    workshop=workshop,
                    bench=bench,
                    spec=spec,
                    locked=locked,
                    extras=_lay_out(Path(scratch), tools, workshop.config),
                )
                return table.compare(platform)


def prepare(context: Context, jobs: Sequence[Job], method: Method) -> SecondOpinion:
    """Find the engine; raises BadInput for a platform it would have to emulate, ToolMissing."""
    engine = require_engine(context.places, context.settings, os.environ)
    native = native_platform(engine)
    wanted = sorted({platform for job in jobs for platform in job.platforms})
    foreign = [platform for platform in wanted if platform != native]
    if foreign:
        raise BadInput(
            "the second opinion runs the target's own interpreter, and the engine's machine is "
            f"{native}: {', '.join(foreign)} would be emulated",
            subject="--cross-check",
            action=(
                f"add --platform {native}, or run it where {', '.join(foreign)} is native"
                if native in wanted
                else f"run it on a machine that is {foreign[0]}"
            ),
        )
    for job in jobs:
        if job.spec.base.debian is None:
            raise BadInput(
                "the second opinion is asked in a base made from .debs, and this base is an image",
                subject=f"images/{job.spec.name}/image.toml: base.image",
                action="lock it without --cross-check",
            )
    return SecondOpinion(context=context, method=method, engine=engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """One platform's question with all it needs."""

    opinion: SecondOpinion
    workshop: Workshop
    bench: Bench
    spec: ImageSpec
    locked: LockedPlatform
    extras: Mapping[str, Path]
    """Name below `PLACE` → what is copied there."""

    def compare(self, platform: str) -> list[Finding]:
        method = self.opinion.method
        pins = [wheel.pin for wheel in self.locked.wheels]
        found: list[Finding] = []
        try:
            text = self._ask(seeded=True)
        except CommandFailed as error:
            if not second_opinion.is_conflict(error.tail):
                raise
            found = [second_opinion.conflict(error.tail, method=method, platform=platform)]
            if method != "pip-lock":
                return found
            # Seeds are constraints to it: without them it says what it would take instead.
            try:
                text = self._ask(seeded=False)
            except CommandFailed as worse:
                if not second_opinion.is_conflict(worse.tail):
                    raise
                return found
        other = second_opinion.answer(method, text)
        return found + second_opinion.compare(pins, other, method=method, platform=platform)

    def _ask(self, *, seeded: bool) -> str:
        indexes, config = self.workshop.indexes, self.workshop.config
        snapshots = self.workshop.cache / "snapshots"
        general = indexes.place(GENERAL)
        url = indexes.resolver_url(general, snapshots)
        folder = local_path(general.where)
        visible = tuple(path.absolute() for path in (folder, snapshots) if path and path.exists())
        if folder is None:
            visible = ()
        local = is_local(self.opinion.engine)
        if visible and not local:
            raise ToolMissing(
                "the general index is a folder, and the engine's machine does not see it",
                subject=str(general),
                action="cross-check with an engine on this machine, or an index on the network",
            )
        environment = _environment(config, os.environ)
        question: Ask = second_opinion.ask(
            self.opinion.method,
            self.locked,
            self.spec.lock.overrides,
            index=url,
            environment=environment,
            seeded=seeded,
        )
        addresses = [url, *(v for k, v in environment.items() if k.lower().endswith("_proxy"))]
        return self.bench.put(
            question,
            self.extras,
            visible=visible,
            host_network=local and any(_on_loopback(address) for address in addresses),
            on_line=self.workshop.output.detail,
        )


def _on_loopback(address: str) -> bool:
    host = urlsplit(address).netloc.rpartition("@")[2]
    return bool(host) and is_loopback(host)


def _environment(config: UserConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """All that the resolver sees: proxy and CA of this machine, and what we say."""
    names = [spelling for name in PROXY_VARIABLES for spelling in (name, name.lower())]
    found = {name: environment[name] for name in names if environment.get(name)}
    if config.proxy:
        found |= dict.fromkeys(
            ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), config.proxy
        )
    if config.ca is not None:
        found |= dict.fromkeys(("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"), _CA)
    return found | _ENVIRONMENT


def _lay_out(scratch: Path, tools: Sequence[Path], config: UserConfig) -> dict[str, Path]:
    """Unpack the tools, and write the credentials; map each to its name in the container."""
    for wheel in tools:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch / "tools")
    home = scratch / "home"
    home.mkdir(mode=0o700)
    (home / ".netrc").touch(0o600)
    (home / ".netrc").write_text(netrc_text(config), encoding="utf-8")
    found = {"tools": scratch / "tools", "home": home}
    return found | ({"ca.pem": Path(config.ca.value).resolve()} if config.ca is not None else {})


def _fetch_tools(context: Context, image: str, workshop: Workshop) -> list[Path]:
    store = Store(context.places.store)
    missing = [pin for pin in TOOLS if not store.has(pin.sha256, pin.size)]
    wheelhouse.fetch_wheels(
        missing,
        store,
        workshop.indexes,
        image=image,
        threads=workshop.threads,
        on_bytes=lambda _: None,
    )
    return [store.path(pin.sha256) for pin in TOOLS]


def _base(context: Context, spec: ImageSpec, locked: LockedPlatform) -> Base:
    store, records = Store(context.places.store), context.places.state / "base"
    found = rootfs.find_base(locked.debs, store, records)
    if found is not None:
        return found
    codename = spec.base.debian or ""
    debs.fetch_debs(
        locked.debs,
        store,
        debs.archives(codename, context.settings.debian),
        snapshot=context.settings.debian.snapshot,
        threads=context.settings.threads,
    )
    folder = context.places.cache / "tools"
    program = mmdebstrap.find_mmdebstrap(folder)
    if program is None:
        program = mmdebstrap.unpack_mmdebstrap(folder, context.settings.debian)
    return rootfs.make_base(
        codename, locked.debs, store, records, program, waiting=context.output.note
    )
