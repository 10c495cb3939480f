"""Mounts: the device that holds a path, by a name that stays the same from run to run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

#: Where Linux lists what is mounted.
_MOUNTS = "/proc/self/mountinfo"
#: Types of network file systems.
_NETWORK = frozenset(
    ("afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "pvfs2", "smb3", "smbfs", "sshfs")
)
#: Characters that the list writes as octal numbers.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def device_name(path: str) -> str | None:
    """The block device or network share that holds a path, or the nearest folder above it that exists.

    Elsewhere than on Linux it is the number that the system gives to the file system. None = nothing is known.
    """
    number = _number(path)
    if number is None:
        return None
    found = _mounted(number)
    if found is None:
        return f"device {number}"
    source, mount_point, _ = found
    return source if "/" in source or ":" in source else f"{source} on {mount_point}"


def is_network(path: str) -> bool:
    """Whether a path is on a file system that other machines share, as far as the system tells."""
    number = _number(path)
    found = None if number is None else _mounted(number)
    return found is not None and found[2].removeprefix("fuse.") in _NETWORK


def is_lustre(path: str, mounts: str = _MOUNTS) -> bool:
    """Whether a path, which need not exist, is on a Lustre file system; `mounts` is the system's list."""
    here, longest, kind = os.path.realpath(path), -1, ""
    for _, mount_point, found in _listed(mounts):
        inside = here == mount_point or here.startswith(mount_point.rstrip("/") + "/")
        # A later line hides an earlier one with the same mount point.
        if inside and len(mount_point) >= longest:
            longest, kind = len(mount_point), found
    return kind == "lustre"


def _listed(mounts: str) -> Iterator[tuple[str, str, str]]:
    """Number, mount point and type of each file system in a list; none if there is no list."""
    with suppress(OSError), open(mounts, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            fields, more = before.split(), after.split()
            if len(fields) > 4 and len(more) > 1:
                yield fields[2], _plain(fields[4]), more[0]


def _number(path: str) -> str | None:
    """The number of the file system that holds a path, or the nearest folder above it that exists."""
    here = os.path.abspath(path)
    while True:
        try:
            number = os.stat(here).st_dev
            return f"{os.major(number)}:{os.minor(number)}"
        except OSError:
            if here == (here := os.path.dirname(here)):
                return None


def _mounted(number: str) -> tuple[str, str, str] | None:
    """Source, mount point and type of the file system with this number."""
    found = None
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                fields, more = before.split(), after.split()
                if len(fields) > 4 and len(more) > 1 and fields[2] == number:
                    found = _plain(more[1]), _plain(fields[4]), more[0]
    except OSError:
        return None
    return found


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
