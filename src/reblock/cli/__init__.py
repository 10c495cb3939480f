"""The command line: words in, words out; all work is done by `reblock.api`."""

from __future__ import annotations

import sys
from typing import NoReturn

from reblock.cli.descriptors import open_standard_descriptors
from reblock.cli.interrupt import INTERRUPTED, listen


def main() -> NoReturn:
    """The command `reblock`."""
    open_standard_descriptors()
    try:
        listen()
        # Loaded here, so that signals are answered from the first moment on.
        from reblock.cli.application import start

        start()
    except KeyboardInterrupt:
        print("reblock: error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
