"""The command line: words in, words out; all work is done by `reblock.api`."""

from reblock.cli.application import application, main

__all__ = ["application", "main"]
