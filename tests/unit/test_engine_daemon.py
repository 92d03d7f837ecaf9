"""Processes that outlive us are recognised and ended; others' never are (edge/daemon.py)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.core.engine import Running
from builder.edge import daemon


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Running]:
    """Yield a process that waits to be ended."""
    running = daemon.spawn(["/bin/sleep", "600"], environment={}, log=tmp_path / "log")
    yield running
    daemon.end([running], signal.SIGKILL, 10)


def test_a_daemon_has_its_own_session_and_no_input(sleeper: Running, tmp_path: Path) -> None:
    """Ctrl-C in our terminal does not reach it; the folder it was started in is free."""
    assert sleeper.pid == os.getsid(sleeper.pid)
    assert daemon.is_alive(sleeper)
    script = "readlink /proc/self/cwd /proc/self/fd/0"
    running = daemon.spawn(["/bin/sh", "-c", script], environment={}, log=tmp_path / "said")
    assert [] == daemon.end([running], signal.SIGCONT, 10)
    assert "/\n/dev/null" == daemon.tail(tmp_path / "said")


def test_what_it_says_is_in_its_log(tmp_path: Path) -> None:
    """Both streams, and only the end is shown."""
    log = tmp_path / "logs" / "said"
    running = daemon.spawn(
        ["/bin/sh", "-c", "echo first; echo second >&2; echo third"], environment={}, log=log
    )
    assert [] == daemon.end([running], signal.SIGCONT, 10)
    assert "second\nthird" == daemon.tail(log, 2)
    assert "" == daemon.tail(tmp_path / "none")


def test_an_ended_process_is_not_alive(sleeper: Running) -> None:
    """Nor is one that is a zombie until somebody waits for it."""
    assert [] == daemon.end([sleeper], signal.SIGTERM, 10)
    assert not daemon.is_alive(sleeper)
    child = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not daemon.is_alive(Running(pid=child.pid, started=0))
    child.wait()


def test_a_recycled_number_is_left_alone(sleeper: Running) -> None:
    """Same number, another start: it is somebody else, and not signalled."""
    recycled = Running(pid=sleeper.pid, started=sleeper.started - 1)
    daemon.end([recycled], signal.SIGKILL, 0)
    assert not daemon.is_alive(recycled)
    assert daemon.is_alive(sleeper)


def test_a_stubborn_process_is_named(tmp_path: Path) -> None:
    """One that ignores the signal is returned, so that a stronger one can follow."""
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    child = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert b"ready\n" == child.stdout.readline()
    (own,) = [one.running for one in daemon.running_from(Path("/")) if one.running.pid == child.pid]
    assert [own] == daemon.end([own], signal.SIGTERM, 0)
    assert [] == daemon.end([own], signal.SIGKILL, 10)
    child.stdout.close()
    child.wait()


def test_processes_are_found_by_their_program(tmp_path: Path) -> None:
    """By the folder of the program, deleted or not, and by its name."""
    program = tmp_path / "tools" / "nightlock-test-sleep"
    program.parent.mkdir()
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    child = subprocess.Popen([program, "600"])
    try:
        found = daemon.running_from(tmp_path / "tools")
        assert [(child.pid, f"{program} 600")] == [(one.running.pid, one.command) for one in found]
        assert [child.pid] == [one.running.pid for one in daemon.running_named(program.name)]
        program.unlink()
        assert [child.pid] == [one.running.pid for one in daemon.running_from(tmp_path / "tools")]
        assert [] == daemon.running_from(tmp_path / "too")
    finally:
        child.kill()
        child.wait()
