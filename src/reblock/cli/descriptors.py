"""Standard descriptors: open, whoever starts the command.

A daemon or `reblock run … >&-` may close them. The next files that are opened would get their numbers, and whatever is
printed would end up in those, be it by us or by a library in C: in the source's socket, or in the middle of the target.
"""

from __future__ import annotations

import os


def open_standard_descriptors() -> None:
    """Lead those that are closed to nowhere; must come before anything else is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
