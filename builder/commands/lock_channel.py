"""The part of `nightlock lock --check` that asks where vLLM itself stands now.

Of a nightly: how old its channel is (C66). Of a release: whether its tag still names the commit
that is locked (C19); a release has no age at which it is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

from builder.commands.lock_vllm import VLLM_INDEX, wants_of
from builder.core.diff_commits import PROJECTS
from builder.core.finding import Finding
from builder.core.history import release_tag
from builder.core.identity import same_commit
from builder.core.keys import finding
from builder.core.lock import Lock
from builder.core.settings import Settings
from builder.core.spec import ImageSpec
from builder.core.wheel_target import wheel_target
from builder.edge import nightly
from builder.edge.history import Forge
from builder.edge.reach import open_indexes
from builder.errors import NetworkError


def find_channel(
    settings: Settings, locks: Sequence[tuple[ImageSpec, Lock]], now: datetime
) -> tuple[list[Finding], list[NetworkError]]:
    """Judge the channel of each lock: findings, and what could not be asked.

    Lists alone are read. A forge that cannot be asked is silence, as while locking. `now` has a
    time zone.
    """
    found: list[Finding] = []
    down: list[NetworkError] = []
    with open_indexes(settings, os.environ, connections=settings.threads) as indexes:
        forge = Forge(
            place=settings.forges.get("vllm", PROJECTS["vllm"].api), client=indexes.client
        )
        for spec, lock in locks:
            if lock.header.channel != "nightly":
                found += _tag_moved(lock, forge)
                continue
            index = nightly.NightlyIndex(
                client=indexes.client,
                index=indexes.place(spec.lock.sources.get(spec.lock.package, VLLM_INDEX)).where,
                package=lock.header.vllm.package,
                threads=settings.threads,
            )
            try:
                targets = {
                    (spec.name, platform): wheel_target(spec, platform, lock.header.target.glibc)
                    for platform in spec.image.platforms
                }
                wants = list(wants_of([spec], targets).values())
                found += nightly.channel_findings(index, wants, forge=forge, now=now)
            except NetworkError as error:
                down.append(error)
    # Images of one set follow one channel.
    return list(dict.fromkeys(found)), down


def _tag_moved(lock: Lock, forge: Forge) -> list[Finding]:
    vllm = lock.header.vllm
    tag = release_tag(vllm.version)
    now = forge.tagged(tag) if tag and vllm.commit else ""
    if not now or same_commit(now, vllm.commit):
        return []
    return [
        finding(
            "commit-identity",
            severity="warning",
            subject=f"{vllm.package} {vllm.version}",
            evidence=f"the tag {tag} names commit {now} now; the locked wheel is of {vllm.commit}",
            cause="The tag was moved after the wheel was built, or the wheel was built elsewhere.",
            action="Find out why before you lock this release again; what is locked stays as it is "
            "by its sha256.",
        )
    ]
