"""Make sure that the standard descriptors are open.

A daemon or `reblock run … >&-` may close them. The next files that are opened would get their numbers, and anything
printed, by us or by a C library, would end up in those: in the source's socket, or in the middle of the target.
"""

from __future__ import annotations

import os


def open_standard_descriptors() -> None:
    """Open the closed ones on the null device; must run before anything else is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The kernel assigns the lowest free number, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
