"""The command line: words in, words out; all work is done by `reblock.api`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from reblock.cli.descriptors import open_standard_descriptors
from reblock.cli.interrupt import INTERRUPTED, listen


def main() -> NoReturn:
    """The command `reblock`."""
    open_standard_descriptors()
    # Numpy's linear algebra is not used; its threads would spin for a while on the cores that we need.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        listen()
        # Loaded here, so that signals are answered from the first moment on.
        from reblock.cli.application import start

        start()
    except KeyboardInterrupt:
        print("reblock: error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
