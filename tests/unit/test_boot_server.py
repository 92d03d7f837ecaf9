"""A booted server's end cuts questions short, and its log is kept as it comes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from builder.core.boot import Exit, Expired
from builder.edge.logfile import LogFile
from builder.edge.server import Server


def server(folder: Path) -> Server:
    """Make one that has no container behind it."""
    with LogFile(folder / "log") as log:
        return Server("http://127.0.0.1:1", log)


def test_a_question_is_answered(tmp_path: Path) -> None:
    """In another thread; what it raises is raised here."""
    one = server(tmp_path)
    assert threading.current_thread() is not one.call(threading.current_thread, 60)

    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        one.call(fail, 60)
    assert one.wait(0) is None


def test_the_end_cuts_a_question_short(tmp_path: Path) -> None:
    """At once, whatever the question still waits for; later questions are not asked."""
    one, end, asked = server(tmp_path), Exit(code=1), threading.Event()
    forever = threading.Event()

    def ask() -> None:
        asked.set()
        forever.wait(60)

    def finish() -> None:
        asked.wait(60)
        one.ended(end)

    threading.Thread(target=finish).start()
    assert end == one.call(ask, 3600)
    assert end == one.wait(3600)
    forever.set()
    asked.clear()
    assert end == one.call(asked.set, 3600)
    assert not asked.is_set()


def test_a_deadline_passes(tmp_path: Path) -> None:
    """And says how long it was."""
    forever = threading.Event()
    assert Expired(seconds=0.01) == server(tmp_path).call(lambda: forever.wait(60), 0.01)
    forever.set()


def test_somebody_looks_while_a_question_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again and again, until the answer or the deadline; what a look raises ends the wait."""
    monkeypatch.setattr("builder.edge.server._LOOK", 0.001)
    one, forever, looks = server(tmp_path), threading.Event(), [0]

    def look() -> None:
        looks[0] += 1
        if looks[0] == 3:
            forever.set()

    assert one.call(lambda: forever.wait(60), 60, look) is True
    assert looks[0] >= 3
    never = threading.Event()
    assert Expired(seconds=0.01) == one.call(lambda: never.wait(60), 0.01, lambda: None)

    def stop() -> None:
        raise ValueError("seen enough")

    with pytest.raises(ValueError, match="seen enough"):
        one.call(lambda: never.wait(60), 60, stop)
    never.set()


def test_a_log_comes_in_pieces(tmp_path: Path) -> None:
    """Cut anywhere; the file keeps every byte, the tail is for people."""
    data = (
        b"2026-11-30T17:00:00.1Z first \xe3\x81\x93\n"
        b"2026-11-30T17:00:00.2Z  10%|#\r 90%|##\r100%|###\r\n"
        b"2026-11-30T17:00:00.3Z last\n"
        b"2026-11-30T17:00:00.4Z not yet whole"
    )
    with LogFile(tmp_path / "log") as log:
        for at in range(0, len(data), 7):
            log.add(data[at : at + 7])
        assert ["first こ", "100%|###", "last"] == log.tail(9)
        assert ["last"] == log.tail(1)
    log.add(b"too late")
    assert data == (tmp_path / "log").read_bytes()
