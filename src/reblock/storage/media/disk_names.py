"""Names of the folders of an array's objects on several disks, by which they are recognised."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from reblock.model.disks import Disks

#: The longest part of the array's name that the names of folders repeat, in characters.
_LONGEST = 48
_NAME = re.compile(r"[^/\0]+\.reblock-[0-9a-f]{16}\.(0|[1-9][0-9]{0,3})", re.DOTALL)


def name_folders(disks: Disks, target: str, number: str) -> Disks:
    """The disks of a target, with folders named by a number of 16 hexadecimal digits that no other run has."""
    name = os.path.basename(os.path.abspath(target))[:_LONGEST]
    final = (os.path.join(disk, f"{name}.reblock-{number}.{k}") for k, disk in enumerate(disks.folders))
    return replace(disks, final=tuple(final))


def disk_of_name(path: str) -> int | None:
    """The number of the disk in the name of a folder of objects; None if it is not such a name."""
    found = _NAME.fullmatch(os.path.basename(path))
    return int(found[1]) if found else None


def is_disk_folder(path: object) -> bool:
    """Whether a value is the whole path of a folder of objects, with no step back in it."""
    return (
        isinstance(path, str)
        and os.path.isabs(path)
        and "\0" not in path
        and os.path.normpath(path) == path
        and disk_of_name(path) is not None
    )
