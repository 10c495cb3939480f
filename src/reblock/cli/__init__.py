"""The command line: parses words, calls `reblock.api`, prints the result."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from reblock.cli.arguments import hide_secrets
from reblock.cli.descriptors import open_standard_descriptors
from reblock.cli.interrupt import INTERRUPTED, listen


def main() -> NoReturn:
    """Run the command `reblock`."""
    open_standard_descriptors()
    hide_secrets()
    # We do not use numpy's linear algebra, whose threads would spin on the cores that we need.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        listen()
        # Loaded after `listen`, so that signals are handled from the start.
        from reblock.cli.application import start

        start()
    except KeyboardInterrupt:
        print("reblock: error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
