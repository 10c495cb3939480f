"""Disks: folders on several disks over which the objects of an array are spread.

::

    /data/volume/                                    the array: its description alone, published by one rename
    /disk1/volume.reblock-5f0c9a3b7d21e846.0/        its objects on each disk: the name of the array, a number that no
    /disk2/volume.reblock-5f0c9a3b7d21e846.1/        other run has, and the number of the disk
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from reblock.model.medium import Medium

#: The placement that is used if none is given.
DEFAULT_PLACEMENT = "round-robin"
#: The most disks of an array.
MAX_DISKS = 4096


@dataclass(frozen=True)
class Disks:
    """The disks of one array."""

    folders: tuple[str, ...]
    """The folder of each disk, as the user named it, as a whole path."""
    placement: str = DEFAULT_PLACEMENT
    """Which object is on which disk, see `reblock.geometry.placement`."""
    final: tuple[str, ...] = ()
    """The folder of objects on each disk after publishing; () = not known yet."""
    built: tuple[str, ...] = ()
    """The folders in which they are built; () = as `final`."""

    @property
    def current(self) -> tuple[str, ...]:
        """The folders of objects, as far as they are known."""
        return self.built or self.final or self.folders


@runtime_checkable
class Spreadable(Protocol):
    """A format whose arrays can be spread over disks."""

    @property
    def disks(self) -> Disks | None:
        """The disks of the arrays that it makes; None = they are not spread."""

    def on_disks(self, disks: Disks) -> Spreadable:
        """The same format, for arrays on these disks."""

    def disk_folders(self, path: str, allow: Sequence[str], *, medium: Medium = ...) -> list[str]:
        """The folders of objects of an existing array, if nothing else is in them; [] if it is not spread.

        ExternalError if one of them is outside the allowed folders, FormatError if it holds anything else.
        """


@runtime_checkable
class Spread(Protocol):
    """A store whose objects are on several disks."""

    @property
    def disk_paths(self) -> Sequence[str]:
        """The folders of its objects; empty if they are not spread."""
