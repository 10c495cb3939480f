"""A run during which the power of its file system goes off, at a part of the way: FLAG PART SOURCE TARGET OPTIONS.

Prints how many write boxes the journal had promised by then. A part above 1 is after the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import reblock
from reblock.errors import ReblockError
from reblock.runs.journal import Journal, from_ranges

#: EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN.
SHUTDOWN = 0x8004587D


def main(flag: int, part: float, source: str, target: str, options: dict[str, Any]) -> None:
    promised = 0
    append = Journal.append

    def counted(journal: Journal, line: dict[str, Any]) -> None:
        nonlocal promised
        append(journal, line)
        # On disk, or so it was said.
        promised += from_ranges(line["boxes"]).size if "boxes" in line else 0

    Journal.append = counted  # type: ignore[method-assign]
    disk = os.open(Path(target).parent, os.O_RDONLY)
    off = False

    def switch_off() -> None:
        nonlocal off
        if not off:
            off = True
            print(promised, flush=True)
            fcntl.ioctl(disk, SHUTDOWN, struct.pack("I", flag))

    def progress(done: int, whole: int) -> None:
        if done >= part * whole:
            switch_off()

    try:
        reblock.run(reblock.plan(source, target, **options), progress=progress)
    except ReblockError as error:
        print(type(error).__name__, error, file=sys.stderr)
    switch_off()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4], json.loads(sys.argv[5]))
