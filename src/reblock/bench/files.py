"""Files of benchmarks: drop them from the page cache, empty them without freeing their inodes, and write results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from reblock.errors import DiskError, UsageError
from reblock.storage.location import Where


def evict(descriptor: int) -> None:
    """Drop an open file's clean pages from the page cache; dirty pages stay, so sync first."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def evict_array(path: str) -> None:
    """Sync everything, then drop a file, or all files below a folder, from the page cache."""
    os.sync()
    below = [os.path.join(base, name) for base, _, names in os.walk(path) for name in names]
    for file in below or [path]:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            evict(descriptor)
        finally:
            os.close(descriptor)


def empty(folder: str) -> None:
    """Truncate all files below a folder.

    Truncated files give back their space but keep their inodes. ext4 skips inodes that were freed in the last minutes,
    one by one for every new file, so removing many files between two runs would slow down the second.
    """
    for base, _, names in os.walk(folder):
        for name in names:
            os.truncate(os.path.join(base, name), 0)


def check_result_file(path: Where, is_ours: Callable[[str], bool], what: str) -> None:
    """Refuse a result file that would overwrite anything but an earlier one; `what` names such files."""
    where = os.fspath(path)
    if not os.path.isdir(os.path.dirname(os.path.abspath(where))):
        raise UsageError(f"{where}: its folder does not exist")
    if os.path.lexists(where) and not is_ours(where):
        raise UsageError(f"{where} exists and is not {what}: name another file")


def write_result(content: dict[str, Any], path: Where) -> None:
    """Write a JSON document to a file, atomically."""
    where = os.fspath(path)
    part = f"{where}.{os.getpid()}.part"
    try:
        try:
            with open(part, "x", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
                file.write("\n")
            os.replace(part, where)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)
    except OSError as error:
        raise DiskError.wrap(error, doing="writing", path=where) from error
