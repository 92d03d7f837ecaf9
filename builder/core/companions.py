@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One package a lock must hold."""

    package: str
    version: str
    """Exact, with its label."""
    index: str
    """Name of the one index it may come from."""
    path: str
    """Below that index's address; empty: its root."""
    why: str

    @property
    def requirement(self) -> str:
        """As PEP 508."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """What must stand beside one vLLM on one target."""

    wanted: tuple[Wanted, ...] = ()
    """The leader first."""
    overrides: tuple[str, ...] = ()
    """Requirements with a marker that is never true: what is named but must stay out."""
    environment: tuple[tuple[str, str], ...] = ()
    """What the image must set, because of what is left out."""
    programs: tuple[str, ...] = ()
    """What the image must hold, because of what is left out."""
    providers_unread: bool = False
    """The shim's providers are not known yet: read its Requires-Dist (`providers_of`), ask again."""
    notes: tuple[str, ...] = ()
    """For a person: eras and what follows from policies."""
    findings: tuple[Finding, ...] = ()
    """What cannot be had."""


def required(
    vllm: Distribution,
    target: Target,
    policies: Mapping[str, Policy],
    *,
    offered: Iterable[str] = (),
) -> Companions:
    """Say which companions at which version from which index belong to this vLLM.

    `offered`: architectures of the jit-cache providers (`sm120f`), from `providers_of`. Nothing is
    required on the CPU, or of a vLLM that does not pin flashinfer-python exactly.
    """
    version = vllm.pin_of(LEADER, target.environment)
    leader = parse_version(version or "")
    if not target.cuda or leader is None:
        return Companions()
    home = Home(since=(0,), index=GENERAL)
    if leader.is_devrelease:
        home = Home(since=(0,), index=INDEX, path="nightly")
    wanted = [
        Wanted(
            package=LEADER,
            version=str(leader),
            index=home.index,
            path=home.path,
            why=f"{vllm.name} {vllm.version} pins it",
        )
    ]
    vllm_version = vllm.parsed
    notes = [_era(PINNED_ERAS, vllm_version.release)] if vllm_version else []
    overrides: list[str] = []
    environment: dict[str, str] = {}
    programs: list[str] = []
    findings: list[Finding] = []
    unread = False
    for row in COMPANIONS:
        if leader.release < row.since:
            continue
        if policies.get(row.package) == "none":
            notes.append(f"{row.package} is left out by policy: {row.without}")
            programs += [program for program in row.programs if program not in programs]
            environment |= {
                name: value.format(architectures=architectures(target))
                for name, value in row.environment
            }
            if vllm.pin_of(row.package, target.environment):
                overrides.append(_never(row.package))
            continue
        label = jit_cache_label(target.cuda) if row.labelled else ""
        if row.labelled and not label:
            findings.append(_no_label(row, target))
            continue
        version = f"{leader.public}+{label}" if label else str(leader)
        index, path = home_of(row, leader, label)
        shim = Wanted(
            package=row.package,
            version=version,
            index=index,
            path=path,
            why=f"equal to {LEADER} {leader}",
        )
        wanted.append(shim)
        if row.providers_since and leader.release >= row.providers_since:
            names = list(offered)
            unread = not names
            chosen, missing = choose_providers(target, names)
            wanted += [
                Wanted(
                    package=f"{JIT_CACHE}-{name}",
                    version=version,
                    index=index,
                    path=path,
                    why=f"runs on {', '.join(gpus)}",
                )
                for name, gpus in chosen.items()
            ]
            overrides += [_never(f"{JIT_CACHE}-{name}") for name in names if name not in chosen]
            if names:
                findings += [_no_provider(shim.requirement, gpu, names) for gpu in missing]
    return Companions(
        wanted=tuple(wanted),
        overrides=tuple(overrides),
        environment=tuple(sorted(environment.items())),
        programs=tuple(programs),
        providers_unread=unread,
        notes=tuple(notes),
        findings=tuple(findings),
    )


def _never(package: str) -> str:
    return f"{package}; sys_platform == 'never'"


def _no_label(row: Companion, target: Target) -> Finding:
    return finding(
        "companion-missing",
        subject=row.package,
        evidence=f"published for CUDA {', '.join(LABELS)}; the image has {target.cuda}",
        action=f'State the policy "none" for {row.package}, or choose another CUDA version.',
    )


