"""A network of its own, with mounts and /run of its own, to start engines in and to look at."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

# Loopback on, /run empty; then the namespace lasts as long as this program.
_HOLD = """
import fcntl, json, signal, socket, struct, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
with socket.socket() as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))
print(json.dumps(open("/proc/self/mountinfo").readlines()), flush=True)
signal.pause()
"""

# Wider than what the product watches: everything that is not a counter or a clock.
_LOOK = """
import fcntl, json, os, pathlib, socket, struct, sys
state = sys.argv[1]
sysctls = {}
for top in ("net/ipv4", "net/ipv6", "net/bridge", "kernel/keys"):
    for path in pathlib.Path("/proc/sys", top).rglob("*"):
        try:
            sysctls[str(path)] = path.read_text()
        except OSError:
            pass
processes = []
for path in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        words = (path / "cmdline").read_bytes().decode(errors="replace").split("\\0")
    except OSError:
        continue
    if any(state in word for word in words) and int(path.name) != os.getpid():
        processes.append(" ".join(words))
links = {}
with socket.socket() as control:
    for _, name in socket.if_nameindex():
        flags = fcntl.ioctl(control, 0x8913, struct.pack("16sH14x", name.encode(), 0))
        links[name] = struct.unpack_from("H", flags, 16)[0]
# Mounts that were copied with the namespace vanish here when their folder vanishes outside.
copied = set(json.loads(sys.stdin.read()))
mounts = [line for line in open("/proc/self/mountinfo")
          if line not in copied or line.split()[4].startswith("/sys")]
mounts = [line.split(" ", 3)[3] for line in mounts]
groups = [str(path) for path in pathlib.Path("/sys/fs/cgroup").glob("**/nightlock-*")]
run = sorted(str(path) for path in pathlib.Path("/run").rglob("*"))
print(json.dumps({"sysctls": sysctls, "processes": processes, "links": links,
                  "mounts": mounts, "groups": groups, "run": run}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """Where the commands of one test run."""

    pid: int
    state: Path
    """XDG_STATE_HOME inside."""
    copied: str
    """What was mounted when it was made, as JSON."""
    extra: dict[str, str] = field(default_factory=dict)
    """More environment, as the engine's client needs it."""

    def argv(self, *command: str | Path) -> list[str]:
        """Lay out a command to run inside."""
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--", *map(str, command)]

    @property
    def environment(self) -> dict[str, str]:
        """What commands inside see; no engine but their own."""
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("DOCKER_", "NIGHTLOCK_", "BUILDX_", "XDG_"))
        }
        return {**kept, "XDG_STATE_HOME": str(self.state), "PYTHONPATH": str(ROOT), **self.extra}

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        """Start a command inside."""
        return subprocess.Popen(
            self.argv(*command),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str | Path, stdin: str = "") -> str:
        """Run a command inside; its failure shows what it said."""
        done = subprocess.run(
            self.argv(*command),
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def nightlock(self, *words: str, status: int = 0) -> dict[str, Any]:
        """Run nightlock inside and return its JSON document."""
        process = self.start(sys.executable, "-m", "builder", *words, "--json")
        out, err = process.communicate(timeout=300)
        assert process.returncode == status, f"{words}: {process.returncode}\n{out}\n{err}"
        document: dict[str, Any] = json.loads(out)
        return document

    def look(self, tools: Path) -> dict[str, Any]:
        """Look at everything an engine changes; `tools` are unpacked by the same code."""
        said: dict[str, Any] = json.loads(
            self.run(sys.executable, "-c", _LOOK, self.state, stdin=self.copied)
        )
        for name in ("iptables-nft-save", "ip6tables-nft-save"):
            said[name] = filtered(self.tool(tools, name))
        said["nft"] = re.sub(
            r"packets \d+ bytes \d+", "", self.tool(tools, "nft", "list", "ruleset")
        )
        return said

    def tool(self, tools: Path, name: str, *arguments: str, stdin: str = "") -> str:
        """Run an unpacked program inside."""
        libraries = ":".join(str(path) for path in (tools / "root/usr/lib").glob("*-linux-gnu*"))
        variables = [f"LD_LIBRARY_PATH={libraries}", f"XTABLES_LIBDIR={libraries}/xtables"]
        return self.run("env", *variables, tools / "bin" / name, *arguments, stdin=stdin)


def filtered(saved: str) -> list[str]:
    """Drop what differs between two saves of the same rules: counters, times, empty tables."""
    lines = [re.sub(r"\[\d+:\d+\]", "", line) for line in saved.splitlines()]
    return [line.strip() for line in lines if not line.startswith("#")]


@contextmanager
def namespace(state: Path) -> Iterator[Namespace]:
    """Open a namespace, and end what is left in it."""
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "--propagation=private", sys.executable, "-c", _HOLD],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    inside = Namespace(pid=holder.pid, state=state, copied=holder.stdout.readline())
    try:
        assert inside.copied.startswith("["), "the namespace could not be made"
        yield inside
    finally:
        inside.start(sys.executable, "-m", "builder", "engine", "stop").communicate(timeout=300)
        holder.kill()
        holder.wait()
        holder.stdout.close()


def scratch_context(folder: Path, program: Path, dockerfile: str) -> Path:
    """Write a build context that holds a program of this machine with its libraries."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    libraries = [Path(word) for word in said.split() if word.startswith("/")]
    for path in (program, *libraries):
        target = folder / "tree" / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o755)
    (folder / "Dockerfile").write_text(dockerfile)
    return folder


def client_environment(document: Mapping[str, Any], state: Path) -> dict[str, str]:
    """Environment of the client of a private engine, from what `engine start` said."""
    client = state / "nightlock/engine/client"
    return {"DOCKER_HOST": document["result"]["host"], "DOCKER_CONFIG": str(client)}


def share(unpacked: Path, state: Path) -> None:
    """Give a state folder the unpacked programs, without copying where that can be."""
    own = state / "nightlock/engine/tools" / unpacked.name
    shutil.copytree(unpacked, own, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def started(inside: Namespace) -> tuple[dict[str, Any], Namespace]:
    """Start an engine; return what it said, and the namespace with the client's environment."""
    said = inside.nightlock("engine", "start")
    extra = client_environment(said, inside.state)
    return said, replace(inside, extra=extra)
