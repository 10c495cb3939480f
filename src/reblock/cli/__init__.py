"""The command line: words in, words out; all work is done by `reblock.api`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The command `reblock`."""
    try:
        # Loaded here, so that Ctrl-C is answered from the first moment on.
        from reblock.cli.application import start
    except KeyboardInterrupt:
        print("reblock: error: interrupted", file=sys.stderr)
        sys.exit(130)
    start()
