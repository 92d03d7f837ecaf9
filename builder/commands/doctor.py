"""`nightlock doctor`: what this machine has and lacks, one line and one fix each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from builder.commands.context import Context, Outcome
from builder.core import doctor
from builder.core.doctor import Check
from builder.core.document import Result
from builder.core.engine import EngineFolders
from builder.core.engine_features import parse_buildkit
from builder.core.engine_machine import refusal
from builder.core.indexes import DEFAULT_URLS
from builder.core.spec import GENERAL
from builder.edge import apt, files, mmdebstrap, process, uv
from builder.edge.engine import find_engine, probe_buildkit, probe_info
from builder.edge.machine import read_machine
from builder.edge.reach import silent
from builder.edge.userconfig import read_user_config
from builder.errors import CommandFailed, NightlockError, redacted


class DoctorResult(Result):
    """Every check, in the order of the chain."""

    checks: list[Check]


def run(context: Context) -> Outcome[DoctorResult]:
    """Look at everything the main job needs; not ok when something of it lacks."""
    checks = (
        *_programs(),
        *_engine(context),
        *_base(context),
        *_indexes(context),
        *_disk(context),
        *doctor.judge_gpu(_say("nvidia-smi", "-L"), _say("nvidia-ctk", "--version")),
    )
    return Outcome(
        result=DoctorResult(checks=list(checks)),
        text=doctor.table(checks),
        ok=all(check.state != "lacks" for check in checks),
    )


def _programs() -> Iterator[Check]:
    yield doctor.judge_python(sys.version_info[:2])
    try:
        yield doctor.ok("uv", uv.version())
    except NightlockError as error:
        yield doctor.from_error("uv", error)


def _engine(context: Context) -> Iterator[Check]:
    folders = EngineFolders(context.places)
    try:
        engine = find_engine(context.places, context.settings, os.environ)
    except NightlockError as error:
        yield doctor.from_error("engine", error)
        return
    if engine is None:
        yield doctor.judge_no_engine(refusal(read_machine(folders)))
        return
    buildkit = parse_buildkit(probe_buildkit(engine, context.settings.engine.builder))
    yield doctor.judge_version(engine.version)
    yield doctor.judge_buildkit(engine.version, buildkit)
    yield doctor.judge_store(probe_info(engine), buildkit)
    yield doctor.judge_registry(engine.host, engine.registry, context.settings.registry)


def _base(context: Context) -> Iterator[Check]:
    reason = mmdebstrap.can_make_base()
    if reason is None:
        yield doctor.ok("base image", "mmdebstrap can make a root file system here")
    else:
        yield doctor.lacks("base image", reason.partition(":")[0], reason.partition(":")[2].strip())
    try:
        sources = apt.host_sources("trixie", context.settings.debian)
    except NightlockError as error:
        yield doctor.from_error("Debian's archive", error)
        return
    yield doctor.ok("Debian's archive", ", ".join(source.uri for source in sources))
    keyring = sources[0].keyring
    if os.access(keyring, os.R_OK):
        yield doctor.ok("Debian's keyring", keyring)
    else:
        yield doctor.lacks(
            "Debian's keyring",
            f"{keyring} cannot be read",
            "install the package debian-archive-keyring, or set NIGHTLOCK_DEBIAN_KEYRING",
        )


def _indexes(context: Context) -> Iterator[Check]:
    try:
        config = read_user_config(os.environ)
    except NightlockError as error:
        yield doctor.from_error("pip's and uv's configuration", error)
        return
    own = context.settings.indexes
    named = {GENERAL: own.get(GENERAL, config.general.value)}
    named |= {name: own.get(name) or DEFAULT_URLS[name] for name in DEFAULT_URLS}
    named |= own
    links = [(place, "setting find_links") for place in context.settings.find_links]
    links += [(entry.value, entry.origin) for entry in config.find_links]
    more = [(entry.value, entry.origin) for entry in config.extra_indexes]
    why = silent(config, [*named.values(), *(place for place, _ in (*links, *more))])
    for name, where in named.items():
        origin = "setting indexes" if name in own else "default"
        origin = config.general.origin if name == GENERAL and name not in own else origin
        yield doctor.judge_index(name, redacted(where), origin, why.get(where, ""))
    for label, entries in (("find-links", links), ("more indexes", more)):
        for place, origin in entries:
            yield doctor.judge_place(label, redacted(place), origin, why.get(place, ""))
    for label, entry in (
        *(("proxy", entry) for entry in config.proxies),
        *(("certificates", entry) for entry in ((config.ca,) if config.ca else ())),
    ):
        yield doctor.ok(label, f"{entry.value} ({entry.origin})")
    for entry in config.ignored:
        yield doctor.optional(
            "ignored", f"{entry.value} ({entry.origin})", "nothing: everybody gets the same bytes"
        )


def _disk(context: Context) -> Iterator[Check]:
    store, state = context.places.store, context.places.state
    rooms = {folder: files.free_bytes(folder) for folder in (store, state)}
    yield doctor.judge_disk("disk for the store", str(store), rooms[store], doctor.STORE_BYTES)
    yield doctor.judge_disk("disk for the engine", str(state), rooms[state], doctor.ENGINE_BYTES)
    yield doctor.judge_cuda_disk(min(rooms.values()))
    if read_machine(EngineFolders(context.places)).run_writable:
        yield doctor.ok("sockets", str(context.places.run))
    else:
        yield doctor.optional(
            "sockets", f"{context.places.run} cannot be made", "run a private engine as root"
        )


def _say(program: str, argument: str) -> str:
    found = process.find(program)
    if found is None:
        return ""
    try:
        return process.run([found, argument], timeout=20).strip()
    except CommandFailed:
        return ""
