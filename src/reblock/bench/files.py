"""Files of benchmarks: drop them from the page cache, and empty them without freeing their inodes."""

from __future__ import annotations

import os
from contextlib import suppress


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
