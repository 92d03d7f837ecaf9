"""Look at an image from inside: what is installed, whether it is whole, whether it works.

    python -c THIS PLAN

PLAN is JSON: `modules` to import, `commands` to run (name → argv), `architectures` that FlashInfer
compiles for (empty: none is tried), `seconds` that each of these may take. The answer is one JSON
document on standard output; what anything here prints besides goes to standard error. Nothing is
judged here, and only the cache folder and /tmp are written to.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import ctypes
import email.parser
import getpass
import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

SHOWN = 50
"""Paths of one kind that are named; the others are counted."""
TAIL = 2000
"""Characters kept of what a command said."""
CHECKED_HASH = 3
"""Flags of byte code that is checked by the hash of its source (PEP 552)."""
UNHASHED = (".pyc", ".dist-info/RECORD", ".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")
"""Ends of paths whose RECORD row needs no hash (PEP 427 and the spec of recording projects)."""
FRAME = {"pyvenv.cfg", "lib64", "bin/python", "bin/python3", "bin/python{minor}"}
"""What makes a folder a virtual environment and belongs to no package."""

PREFACE = """
import json, os, sys
said = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def say(**row):
    print(json.dumps(row), file=said, flush=True)
"""
"""Keeps standard output for answers: what is imported may print."""

IMPORTS = """
import importlib, time, traceback
for name in sys.argv[1:]:
    say(begin=name)
    start = time.monotonic()
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        say(module=name, error="".join(traceback.format_exception_only(error)).strip()[-600:])
    else:
        version = str(getattr(module, "__version__", "") or "")
        say(module=name, version=version, seconds=round(time.monotonic() - start, 3))
os._exit(0)
"""

# As Triton does it: compiled in /tmp, which may be mounted noexec, loaded from the caches.
EXTENSION = r"""
import importlib.util, shutil, subprocess, sysconfig, tempfile
source = '''#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "probe", "", -1, methods};
PyMODINIT_FUNC PyInit_probe(void) { return PyModule_Create(&module); }
'''
compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
if not compiler:
    sys.exit("no C compiler: neither gcc nor clang is on PATH, and CC is not set")
caches = os.environ.get("TRITON_CACHE_DIR") or os.path.expanduser("~")
os.makedirs(caches, exist_ok=True)
with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=caches) as cache:
    text, made = os.path.join(folder, "probe.c"), os.path.join(folder, "probe.so")
    with open(text, "w") as file:
        file.write(source)
    headers = sysconfig.get_paths()["include"]
    subprocess.run([compiler, text, "-O1", "-shared", "-fPIC", "-I", headers, "-o", made],
                   check=True)
    library = shutil.copy(made, cache)
    spec = importlib.util.spec_from_file_location("probe", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    say(answer=module.answer(), compiler=compiler)
"""

# Built, not loaded: it is linked against a driver that is not here. What code came out is read from
# its fatbins: 16 bytes of header, then entries with the architecture at 28 and flags at 40.
KERNEL = r"""
import struct
os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", " ".join(sys.argv[1:]))
from flashinfer.jit import gen_act_and_mul_module
spec = gen_act_and_mul_module("silu")
spec.build(verbose=False)
path = getattr(spec, "jit_library_path", None) or spec.get_library_path()
with open(path, "rb") as file:
    data = file.read()
code = set()
start = data.find(b"\x50\xed\x55\xba")
while start >= 0:
    length, = struct.unpack_from("<Q", data, start + 8)
    place, end = start + 16, min(start + 16 + length, len(data) - 48)
    while place < end:
        kind, _, header, size = struct.unpack_from("<HHIQ", data, place)
        number, = struct.unpack_from("<I", data, place + 28)
        flags, = struct.unpack_from("<Q", data, place + 40)
        suffix = "a" if flags >> 20 & 1 else "f" if flags >> 21 & 1 else ""
        code.add(("sm_" if kind == 2 else "compute_") + str(number) + suffix)
        place += max(header + size, 48)
    start = data.find(b"\x50\xed\x55\xba", start + 16)
say(code=sorted(code), library=str(path), asked=os.environ["FLASHINFER_CUDA_ARCH_LIST"])
"""


# vLLM chooses its CUDA code by what NVML says, and `vllm --version` is refused on a machine of no
# known kind. This says that there is one GPU, and what `vllm --version` asks besides.
NVML = r"""
int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = 0; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{ *major = MAJOR; *minor = MINOR; return 0; }
"""


def run(
    argv: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a program; `status` None says that it was stopped after `seconds`."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            with subprocess.Popen(
                argv,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
            ) as child:
                try:
                    status: int | None = child.wait(seconds)
                except subprocess.TimeoutExpired:
                    # With the compilers it started.
                    os.killpg(child.pid, signal.SIGKILL)
                    status = None
        except OSError as error:
            return {"status": 127, "out": "", "err": f"{argv[0]}: {error.strerror}", "seconds": 0}
        out.seek(0)
        size = err.seek(0, os.SEEK_END)
        err.seek(max(size - TAIL, 0))
        return {
            "status": status,
            "out": out.read(1 << 20).decode(errors="replace"),
            "err": err.read().decode(errors="replace"),
            "seconds": round(time.monotonic() - started, 3),
        }


def stand_in(architectures: Sequence[str], folder: str) -> dict[str, str] | None:
    """Return an environment in which CUDA code can be loaded without a driver.

    The toolkit's stub of libcuda, and an NVML compiled into `folder` that names one GPU of the
    first architecture (`12.0f`). None where a driver is, or where there is no toolkit.
    """
    stubs = f"{os.environ.get('CUDA_HOME', '')}/lib64/stubs"
    if not architectures or not os.path.exists(f"{stubs}/libcuda.so.1"):
        return None
    with contextlib.suppress(OSError):
        ctypes.CDLL("libnvidia-ml.so.1")
        return None
    major, _, minor = architectures[0].rstrip("af").partition(".")
    library = f"{folder}/libnvidia-ml.so.1"
    argv = ["gcc", "-x", "c", "-", "-shared", "-fPIC", f"-DMAJOR={major}", f"-DMINOR={minor}"]
    made = subprocess.run([*argv, "-o", library], input=NVML.encode(), check=False)
    if made.returncode:
        return None
    found = [folder, stubs, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(found)}


def surroundings() -> dict[str, Any]:
    """Say who we are, where we may write, and which networks there are."""
    home = os.path.expanduser("~")
    try:
        user = getpass.getuser()
    except (KeyError, OSError) as error:
        user = f"unknown: {error}"
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "user": user,
        "home": home,
        "caches": os.environ.get("XDG_CACHE_HOME", home),
        "refused": {name: why for name in (home, "/tmp") if (why := _refused(name))},  # noqa: S108
        "root": _refused("/"),
        "networks": sorted(os.listdir("/sys/class/net")),
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "prefix": sys.prefix,
        "cores": _cores(),
    }


def _refused(folder: str) -> str:
    """Try to write into a folder; return the system's words when it says no."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _cores() -> int:
    return max(len(os.sched_getaffinity(0)), 1)


class Tree:
    """The virtual environment this program runs in, and what its packages say of it."""

    def __init__(self, prefix: str) -> None:
        self.prefix = Path(prefix)
        self.site = Path(sysconfig.get_paths()["purelib"])
        self.packages: list[dict[str, str]] = []
        self.owners: dict[str, tuple[str, str, str]] = {}
        """Path → package, hash and size by its RECORD."""
        self.bytes = 0
        self._wrong: dict[str, list[dict[str, str]]] = {}
        self._counts: dict[str, int] = {}

    def read(self) -> None:
        """Read METADATA and RECORD of every package; `edited` gets rows nobody can check."""
        for folder in sorted(self.site.glob("*.dist-info")):
            text = (folder / "METADATA").read_text(encoding="utf-8", errors="replace")
            headers = email.parser.HeaderParser().parsestr(text)
            name, version = headers["Name"] or folder.name, headers["Version"] or ""
            self.packages.append({"name": name, "version": version})
            record = folder / "RECORD"
            if not record.is_file():
                self._note("missing", record, name, "the package has no RECORD")
                continue
            with record.open(encoding="utf-8", newline="") as file:
                for row in csv.reader(file):
                    path, digest, size = [*row, "", "", ""][:3]
                    self._own(name, path, digest, size)

    def _own(self, name: str, path: str, digest: str, size: str) -> None:
        place = os.path.normpath(self.site / path)
        if not digest and not place.endswith(UNHASHED):
            self._note("edited", Path(place), name, "its RECORD row has no hash")
        self.owners[place] = (name, digest, size)

    def look(self, workers: int) -> dict[str, Any]:
        """Hash every file and compare; what no RECORD lists is a stray."""
        found = list(self._files())
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(self._check, found))
        for place in self.owners.keys() - set(found):
            if not os.path.lexists(place):
                self._note("missing", Path(place), self.owners[place][0], "it is not there")
        named = {kind: sorted(r, key=lambda row: row["path"]) for kind, r in self._wrong.items()}
        return {
            "files": len(found),
            "bytes": self.bytes,
            "counts": self._counts,
            "wrong": named,
        }

    def _files(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self.prefix):
            for name in names + [n for n in folders if os.path.islink(f"{folder}/{n}")]:
                yield f"{folder}/{name}"

    def _check(self, place: str) -> None:
        """Compare one file with its row; byte code with its source."""
        owner = self.owners.get(place)
        if owner is None and (place.endswith(".pyc") or self._belongs(place)):
            if place.endswith(".pyc"):
                self._check_byte_code(place)
            return
        if owner is None:
            self._note("stray", Path(place), "", "no RECORD lists it")
            return
        name, stated, size = owner
        if not stated:
            return
        kind, _, wanted = stated.partition("=")
        try:
            with open(place, "rb") as file:
                digest = hashlib.file_digest(file, kind).digest()
                length = file.tell()
        except (OSError, ValueError) as error:
            self._note("edited", Path(place), name, f"it cannot be read: {error}")
            return
        self.bytes += length
        got = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if got != wanted:
            why = f"RECORD has {wanted}, the file has {got}"
            self._note("edited", Path(place), name, why, digest.hex() if kind == "sha256" else "")
        elif size and int(size) != length:
            self._note("edited", Path(place), name, f"RECORD has {size} bytes, it has {length}")

    def _check_byte_code(self, place: str) -> None:
        try:
            source = importlib.util.source_from_cache(place)
            with open(source, "rb") as file:
                digest = importlib.util.source_hash(file.read())
            with open(place, "rb") as file:
                head = file.read(16)
        except (OSError, ValueError):
            self._note("stray", Path(place), "", "byte code without a source")
            return
        wanted = importlib.util.MAGIC_NUMBER + CHECKED_HASH.to_bytes(4, "little") + digest
        if head != wanted:
            owner = self.owners.get(source, ("", "", ""))[0]
            self._note("edited", Path(place), owner, "byte code of another source or Python")

    def _belongs(self, place: str) -> bool:
        """Whether it is a part of the environment itself, or another name of a listed file."""
        minor = f"{sys.version_info.major}.{sys.version_info.minor}"
        if os.path.relpath(place, self.prefix) in {name.format(minor=minor) for name in FRAME}:
            return True
        target = os.path.realpath(place)
        return os.path.islink(place) and (
            target in self.owners or any(name.startswith(target + "/") for name in self.owners)
        )

    def _note(self, kind: str, place: Path, package: str, why: str, sha256: str = "") -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        rows = self._wrong.setdefault(kind, [])
        if len(rows) < SHOWN:
            rows.append({"path": str(place), "package": package, "why": why, "sha256": sha256})


def _timed(tree: Tree, workers: int) -> dict[str, Any]:
    started = time.monotonic()
    tree.read()
    return tree.look(workers) | {"seconds": round(time.monotonic() - started, 3)}


def main(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Do everything the plan asks for, the longest first, as much at once as there are cores."""
    python = [sys.executable, "-c"]
    programs: dict[str, list[str]] = {}
    if plan["architectures"]:
        programs["kernel"] = [*python, PREFACE + KERNEL, *plan["architectures"]]
    programs["imports"] = [*python, PREFACE + IMPORTS, *plan["modules"]]
    programs |= plan["commands"]
    programs["extension"] = [*python, PREFACE + EXTENSION]
    tree, cores = Tree(sys.prefix), _cores()
    # Libraries are loaded from it: /tmp may be mounted noexec.
    caches = os.environ.get("XDG_CACHE_HOME", "")
    with (
        tempfile.TemporaryDirectory(dir=caches if os.path.isdir(caches) else None) as folder,
        ThreadPoolExecutor(max(cores, 2)) as pool,
    ):
        driver = stand_in(plan["architectures"], folder)

        def start(name: str) -> Future[dict[str, Any]]:
            environment = driver if name in plan["commands"] else None
            return pool.submit(run, programs[name], float(plan["seconds"]), environment)

        longest, *others = programs
        ran = {longest: start(longest)}
        looked = pool.submit(_timed, tree, cores)
        ran |= {name: start(name) for name in others}
        return {
            "schema": "nightlock/structural-probe/1",
            "surroundings": surroundings(),
            "packages": tree.packages if looked.result() else [],
            "tree": looked.result(),
            "programs": {name: result.result() for name, result in ran.items()},
        }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
