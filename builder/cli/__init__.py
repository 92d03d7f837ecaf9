"""The command line: `main` runs it; a verb stands in the module of its kind."""

from builder.cli.main import main

__all__ = ["main"]
