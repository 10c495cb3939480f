"""The protocols of building a target on a medium: the lock, the log, private folders, and publishing.

::

    medium.workspace(target)    one per target: lock → log of finished boxes → array → publish → remove
      local files               a hidden folder beside the target, published by one rename
      objects under keys        `.reblock/` below the target; the array has its final keys, its metadata comes last
    medium.private_folder(key)  scratch: a folder that nobody else can have put anything into

A medium that is only read needs nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from reblock.model.medium import Medium
from reblock.model.upload import Upload

#: Rows of identity, size, time of the last write and time of the last change; zeros for a missing object.
Stamps = npt.NDArray[np.uint64]


class Log(Protocol):
    """Lines that survive the process, in the order in which they were appended."""

    @property
    def key(self) -> str:
        """Its key, for messages."""

    def lines(self) -> Iterator[bytes]:
        """All lines with their line ends; after a kill the last one may be incomplete."""

    def append(self, line: bytes, after: int) -> None:
        """Add a line after that many bytes and remove what followed them; the line is durable when this returns."""


class Folder(Protocol):
    """A folder of ours among other people's objects; nobody else can have put anything into it."""

    @property
    def path(self) -> str:
        """Its key."""

    @property
    def reach(self) -> str:
        """The key by which formats and the engine must open it."""

    def check_place(self) -> None:
        """Raise StorageError if the folder was moved or replaced."""

    def names(self) -> list[str]:
        """All names in it, sorted."""

    def remove(self, name: str) -> None:
        """Remove an object, or a folder with its contents; links are not followed."""

    def remove_itself(self) -> bool:
        """Remove the folder if it is empty; returns whether it was."""

    def close(self) -> None:
        """Let go of the folder."""


class Place(Protocol):
    """A key that is compared with others."""

    real: str
    """The key, with links resolved."""

    def meets(self, other: Self) -> bool:
        """Whether one is inside the other, or they are the same."""


class Workspace(Protocol):
    """Where one target is built; as a context manager, it holds the lock."""

    target: str
    """Key of the target, as given."""
    parent: str
    """The folder of the target, whose free space counts."""
    folder: str
    """The folder of the run's own objects."""
    place: str
    """The folder in which the target is built, by its ordinary name."""
    swaps: bool
    """Whether an old target exists until the new one replaces it in one step."""
    left: list[str]
    """Names that were found in the folder and not removed, because they are not ours."""
    lost: str
    """Why the finished boxes in the log are not available here; "" if they are."""

    # ---------------------------------------------------------------- keys for those who open objects
    @property
    def reach(self) -> str:
        """The folder by which formats and the engine must open what is below while the lock is held."""

    @property
    def array(self) -> str:
        """Key under which the target is built."""

    @property
    def scratch(self) -> str:
        """Key of the folder for intermediate arrays."""

    # ---------------------------------------------------------------- members of a job array
    def segment(self, number: int) -> Workspace:
        """The part of one member of a job array: a workspace inside this one, with its own lock, log and scratch."""

    def segments(self) -> list[int]:
        """Numbers of members that have such a part, ascending."""

    def remove_segments(self) -> None:
        """Remove the parts of all members."""

    # ---------------------------------------------------------------- the lock
    @property
    def is_there(self) -> bool:
        """Whether a run has left anything here, or is active."""

    @property
    def has_target(self) -> bool:
        """Whether anything is in the target's place, apart from what an unfinished run has written there."""

    def holder(self) -> str | None:
        """The process that holds the lock, in words, or None. UsageError if the folder is not ours."""

    def look(self) -> None:
        """Raise what entering would raise now, without touching anything."""

    def __enter__(self) -> Self:
        """Take the lock; LockedError if another process holds it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def check_place(self) -> None:
        """Raise StorageError if the folder was moved or replaced while we work in it."""

    # ---------------------------------------------------------------- worker processes
    def fence(self) -> str | None:
        """Make an object that worker processes watch: they stop writing soon after it is gone.

        Its key as they reach it; None if they follow a lease. A process that finds one when it takes the lock removes
        it, and waits until nobody writes any more.
        """

    def unfence(self) -> None:
        """Remove that object."""

    # ---------------------------------------------------------------- the log
    def begin_log(self, line: bytes) -> Log:
        """A new log with one line; it exists with the whole line or not at all."""

    def find_log(self) -> Log | None:
        """The log of an earlier attempt."""

    def find_done(self) -> Log | None:
        """The log of a finished run that was killed while it removed the folder."""

    def looking(self) -> AbstractContextManager[Log | None]:
        """The log, for reading without the lock."""

    @property
    def has_log(self) -> bool:
        """Whether there is a log."""

    def forget_log(self) -> None:
        """Remove the log, which discards all finished boxes."""

    # ---------------------------------------------------------------- the end
    def clear(self) -> list[str]:
        """Remove everything here except the lock, the log last; returns what was there.

        Only names that runs use are removed; others are listed in `left`.
        """

    def clear_array(self) -> None:
        """Remove the unpublished array, and what its format may have made beside it."""

    def identity(self) -> int:
        """A number by which the finished array is recognised in its final place."""

    def is_published(self, identity: int) -> bool:
        """Whether the target is the array with this identity."""

    def publish(self, *, replace: bool) -> None:
        """Give the finished array its name; FileExistsError if that is taken and must not be replaced."""

    def restore(self) -> None:
        """Restore an old target that a killed run had moved away and not replaced yet."""

    def remove(self, *, finished: bool = False) -> list[str]:
        """Remove the folder and everything in it; returns what was there. The log of a finished run goes last."""


@runtime_checkable
class Uploader(Protocol):
    """A medium without ranges, to which files are uploaded that were built locally."""

    def upload_workspace(self, target: str, folder: str | None = None) -> Workspace:
        """The place where a file is built; `folder` is where its local folder is made."""


@runtime_checkable
class UploadingWorkspace(Protocol):
    """A workspace that publishes by an upload."""

    uploaded: Upload | None
    """The upload, once it was made."""


@runtime_checkable
class TargetMedium(Medium, Protocol):
    """A medium on which targets and scratch can be built."""

    def workspace(self, target: str) -> Workspace:
        """The place where a target is built; nothing is made yet."""

    def private_folder(self, key: str, *, make: bool = False) -> Folder | None:
        """A folder of ours, or None if it does not exist and is not to be made.

        UsageError if something else is in its place.
        """

    def check_folder(self, folder: str, what: str) -> None:
        """Raise DiskError if nothing can be made in a folder, described by `what`; touches nothing."""

    def remove_folder(self, key: str) -> None:
        """Remove a folder with all its contents, if it exists; links are not followed."""

    def used_bytes(self, folder: str) -> int:
        """The space that all objects below a folder take."""

    def stamps(self, keys: Sequence[str]) -> Stamps:
        """The state of objects."""

    def settle(self, keys: Sequence[str]) -> Stamps:
        """The state of durable objects that are complete; they need not stay in a cache."""

    def place(self, key: str) -> Place:
        """A key, for comparison with others."""

    def links(self, folder: str) -> Iterator[str]:
        """Links below a folder, and below the folders that they lead to."""
