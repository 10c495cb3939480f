"""Mounts: the device that holds a path, by a name that stays the same from run to run."""

from __future__ import annotations

import os
import re

#: Where Linux lists what is mounted.
_MOUNTS = "/proc/self/mountinfo"
#: Characters that the list writes as octal numbers.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def device_name(path: str) -> str | None:
    """The block device or network share that holds a path, or the nearest folder above it that exists.

    Elsewhere than on Linux it is the number that the system gives to the file system. None = nothing is known.
    """
    here = os.path.abspath(path)
    while True:
        try:
            number = os.stat(here).st_dev
            break
        except OSError:
            if here == (here := os.path.dirname(here)):
                return None
    return _mounted(f"{os.major(number)}:{os.minor(number)}") or f"device {os.major(number)}:{os.minor(number)}"


def _mounted(number: str) -> str | None:
    """The source of the file system with this number; with its mount point where many sources have the same name."""
    found = None
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                fields, more = before.split(), after.split()
                if len(fields) > 4 and len(more) > 1 and fields[2] == number:
                    found = _plain(more[1]), _plain(fields[4])
    except OSError:
        return None
    if found is None:
        return None
    source, mount_point = found
    return source if "/" in source or ":" in source else f"{source} on {mount_point}"


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
