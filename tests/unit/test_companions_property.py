"""The companion rules agree with a naive second implementation over generated sets.

The second one knows no version library: it splits texts at `+` and compares them.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.core.companions import check
from builder.core.target import Target, best_architecture
from builder.core.toolchain import constraints, toolkit_of
from tests.support.stack import dist

VERSIONS = (
    "0.6.1",
    "0.6.13",
    "0.6.14",
    "0.6.18",
    "0.6.18.post1",
    "0.6.18.dev20260819",
    "0.7.0",
    "0.7.0.post1",
    "0.7.2",
    "0.7.2.post1",
)
LABELS = ("", "+cu129", "+cu130", "+cu134")
ARCHITECTURES = ("sm90a", "sm100f", "sm120", "sm120a", "sm120f", "sm121a")
KEYS = {
    "flashinfer-trio-mismatch",
    "jit-cache-local-version",
    "companion-missing",
    "flashinfer-cubin-not-on-general-index",
}

versions = st.sampled_from(VERSIONS)
labels = st.sampled_from(LABELS)
caches = st.builds(str.__add__, versions, labels)
policies = st.sampled_from(["none", "match"])


def naive(
    leader: str | None,
    cubin: str | None,
    shim: str | None,
    providers: dict[str, str],
    gpu: str,
    policy: dict[str, str],
) -> set[tuple[str, str]]:
    """Say what is wrong, by text alone; the image is CUDA 13.0."""
    caches = {f"flashinfer-jit-cache-{name}": version for name, version in providers.items()}
    if shim is not None:
        caches["flashinfer-jit-cache"] = shim
    if leader is None:
        names = [*caches, *(["flashinfer-cubin"] if cubin is not None else [])]
        return {("flashinfer-trio-mismatch", name) for name in names}
    return naive_cubin(leader, cubin, policy) | naive_caches(
        leader, shim, caches, naive_best(gpu, list(providers)), policy
    )


def naive_cubin(leader: str, cubin: str | None, policy: dict[str, str]) -> set[tuple[str, str]]:
    """Compare texts; PyPI has it up to 0.6.13."""
    if cubin is not None:
        return set() if cubin == leader else {("flashinfer-trio-mismatch", "flashinfer-cubin")}
    if policy["flashinfer-cubin"] == "none":
        return set()
    general = leader in ("0.6.1", "0.6.13")
    key = "companion-missing" if general else "flashinfer-cubin-not-on-general-index"
    return {(key, "flashinfer-cubin")}


def naive_caches(
    leader: str,
    shim: str | None,
    caches: dict[str, str],
    best: str | None,
    policy: dict[str, str],
) -> set[tuple[str, str]]:
    """Split at `+`: the first half is the leader's version, the second the image's CUDA."""
    wrong = set()
    for name, version in caches.items():
        public, _, label = version.partition("+")
        if public != leader:
            passes = version[: len(leader)] == leader
            wrong.add(("jit-cache-local-version" if passes else "flashinfer-trio-mismatch", name))
        elif label != "cu130" or shim is None:
            wrong.add(("jit-cache-local-version", name))
    if shim is None:
        wrong |= {
            ("jit-cache-local-version", name) for name in caches if name != "flashinfer-jit-cache"
        }
        if policy["flashinfer-jit-cache"] != "none":
            wrong.add(("companion-missing", "flashinfer-jit-cache"))
    elif leader.startswith("0.7") and best is None:
        wrong.add(("jit-cache-local-version", f"flashinfer-jit-cache {shim}"))
    return wrong


def naive_best(gpu: str, offered: list[str]) -> str | None:
    """Walk the order of preference, written out for the two GPUs."""
    order = {
        "sm_120": ["sm120f", "sm120a", "sm120"],
        "sm_121": ["sm121a", "sm120f", "sm120"],
    }
    return next((one for one in order[gpu] if one in offered), None)


@settings(max_examples=400, deadline=None)
@given(
    leader=st.none() | versions,
    cubin=st.none() | versions,
    shim=st.none() | caches,
    providers=st.dictionaries(st.sampled_from(ARCHITECTURES), caches, max_size=3),
    gpu=st.sampled_from(["sm_120", "sm_121"]),
    cubin_policy=policies,
    cache_policy=policies,
)
def test_flashinfer_agrees_with_the_naive_rules(
    leader: str | None,
    cubin: str | None,
    shim: str | None,
    providers: dict[str, str],
    gpu: str,
    cubin_policy: str,
    cache_policy: str,
) -> None:
    """The same keys on the same subjects, no more and no less."""
    pairs = {"python": leader, "cubin": cubin, "jit-cache": shim}
    pairs |= {f"jit-cache-{name}": version for name, version in providers.items()}
    every = [dist(f"flashinfer-{name}=={version}") for name, version in pairs.items() if version]
    policy = {"flashinfer-cubin": cubin_policy, "flashinfer-jit-cache": cache_policy}
    findings = check(every, Target(cuda="13.0", gpus=(gpu,)), policy)  # type: ignore[arg-type]
    assert naive(leader, cubin, shim, providers, gpu, policy) == {
        (one.key, one.subject) for one in findings if one.key in KEYS
    }


@given(
    version=versions,
    gpu=st.sampled_from(["sm_120", "sm_121"]),
    more=st.sets(st.sampled_from(ARCHITECTURES)),
)
def test_a_right_set_is_never_flagged(version: str, gpu: str, more: set[str]) -> None:
    """Equal versions, the image's label, a provider that fits: silence, whatever else fits too."""
    fitting = {"sm_120": "sm120f", "sm_121": "sm121a"}[gpu]
    every = [
        dist(f"flashinfer-python=={version}"),
        dist(f"flashinfer-cubin=={version}"),
        dist(f"flashinfer-jit-cache=={version}+cu130"),
        *(dist(f"flashinfer-jit-cache-{one}=={version}+cu130") for one in more | {fitting}),
    ]
    assert [] == check(every, Target(cuda="13.0", gpus=(gpu,)), {})


@given(gpu=st.sampled_from(["sm_120", "sm_121"]), offered=st.sets(st.sampled_from(ARCHITECTURES)))
def test_the_provider_agrees_with_the_naive_choice(gpu: str, offered: set[str]) -> None:
    """Any subset of architectures, in any order."""
    assert naive_best(gpu, sorted(offered)) == best_architecture(gpu, sorted(offered))


PARTS = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-nvjitlink")


@given(
    minors=st.dictionaries(st.sampled_from(PARTS), st.integers(0, 5), min_size=1),
    image=st.integers(0, 5),
)
def test_the_toolchain_agrees_with_the_naive_rules(minors: dict[str, int], image: int) -> None:
    """A part is named if and only if its second number is not the image's."""
    every = [dist(f"{name}==13.{minor}.88") for name, minor in minors.items()]
    findings = check(every, Target(cuda=f"13.{image}"), {})
    named = {name for one in findings for name in one.subject.split(", ")}
    assert {name for name, minor in minors.items() if minor != image} == named
    assert {"cuda-toolchain-mixed"} >= {one.key for one in findings}


@given(minor=st.integers(0, 9), last=st.integers(0, 200))
def test_cccl_is_counted_as_its_toolkit_pins_it(minor: int, last: int) -> None:
    """Three numbers up to 13.2, five from 13.3 on; the constraint holds the same ones."""
    version = f"13.{minor}.{last}" if minor < 3 else f"13.3.{minor}.{last}.1"
    assert f"13.{minor}" == toolkit_of("nvidia-cuda-cccl", version)
    row = next(one for one in constraints(f"13.{minor}") if one.startswith("nvidia-cuda-cccl"))
    assert version.startswith(row.removeprefix("nvidia-cuda-cccl==").removesuffix("*"))


FAMILY = ("torch", "torchvision", "torchaudio")


@given(
    family=st.dictionaries(
        st.sampled_from(FAMILY), st.sampled_from(["", "+cpu", "+cu129", "+cu130"]), min_size=1
    ),
    cuda=st.sampled_from(["", "12.9", "13.0"]),
)
def test_the_torch_family_agrees_with_the_naive_rules(family: dict[str, str], cuda: str) -> None:
    """One finding that names every label that is not the image's; a missing one is not judged."""
    wanted = {"": "+cpu", "12.9": "+cu129", "13.0": "+cu130"}[cuda]
    wrong = sorted(name for name, label in family.items() if label not in ("", wanted))
    backend = cuda and family.get("torch") == "+cpu"
    key = "torch-backend-auto" if backend else "torch-family-cuda-mixed"
    every = [dist(f"{name}==2.11.0{label}") for name, label in family.items()]
    expected = [(key, ", ".join(wrong))] if wrong else []
    assert expected == [(one.key, one.subject) for one in check(every, Target(cuda=cuda), {})]
