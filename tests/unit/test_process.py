"""Programs: their lines as they come, and those that say nothing any more."""

from __future__ import annotations

import sys

import pytest

from builder.edge import process
from builder.errors import CommandFailed

TALKS = "import sys; print('one'); print('two', file=sys.stderr); sys.stdout.write('end')"
HANGS = "import time; print('begun', flush=True); time.sleep(600)"


def test_lines_of_output_and_error_come_whole() -> None:
    """The last one without its end, too."""
    said: list[str] = []
    process.stream([sys.executable, "-u", "-c", TALKS], said.append, silence=60)
    assert ["one", "two", "end"] == said


def test_a_program_that_says_nothing_is_ended() -> None:
    """With what it said last; status 0 says that it did not end by itself."""
    said: list[str] = []
    with pytest.raises(CommandFailed, match="said nothing for 1 s and was ended") as caught:
        process.stream([sys.executable, "-c", HANGS], said.append, silence=1)
    assert ["begun"] == said
    assert (0, "begun") == (caught.value.status, caught.value.tail)
