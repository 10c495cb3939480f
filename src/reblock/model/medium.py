"""What a medium is: the place where bytes live, and the only code that opens files or sends requests for them.

A medium holds objects under keys. A key is text: the path of a local file, or a URL such as `memory://NAME/a.zarr/c/0`.
Folders are written into keys with slashes; a medium without folders of its own keeps a marker for those that were made.
::

    engine    store.extents(…) → Extent.path is a key → store.medium.reader(key) → bytes into the engine's buffers
    format    medium.status, entries, create, replace, sync: the metadata of an array

Absence is a normal answer, and a FileNotFoundError; so is presence for `create` and `make_folder`, and a
FileExistsError. Everything else that goes wrong is a DiskError with key and errno.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

from reblock.model.roots import Roots

if TYPE_CHECKING:
    from reblock.model.store import Bytes, Flat

#: Alignment of direct transfers: addresses, offsets and lengths.
PAGE_BYTES = 4096
#: Transfers of at least this many bytes go past the page cache.
DIRECT_BYTES = 64 << 10
#: Kinds of things that lie under a key; others are named in the same way, such as "a pipe".
FILE, FOLDER, LINK = "a file", "a folder", "a symbolic link"


def round_up(size: int) -> int:
    """The next multiple of a page."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


class Status(NamedTuple):
    """An object seen from outside: its size, and a stamp that changes whenever its bytes do."""

    size: int
    """Bytes."""
    identity: int
    """Differs between an object and one that replaces it: the inode, or a number made of the ETag."""
    modified_ns: int
    """Time of the last write, by the clock of the medium."""
    changed_ns: int
    """Time of the last change of bytes, rights or names, which nobody can set; else the same as `modified_ns`."""
    kind: str = FILE
    """What it is, for messages: FILE, FOLDER, LINK or something else."""


class Listed(NamedTuple):
    """A name in a folder."""

    name: str
    """The last part of its key."""
    kind: str
    """What it is; links are not followed."""


class Room(NamedTuple):
    """How much more a medium can hold."""

    device: str
    """Which device it is; keys on the same one share the room."""
    free_bytes: int | None
    """Bytes that may still be written; None = no limit is known."""
    free_objects: int | None
    """Objects that may still be made; None = no limit is known."""


@runtime_checkable
class ReadHandle(Protocol):
    """An object that is open for reading. Several threads may read at once."""

    @property
    def key(self) -> str:
        """The object's key, for messages."""

    def size(self) -> int:
        """Bytes of the object."""

    def status(self) -> Status:
        """The object seen from outside."""

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        """Fill a view from a byte offset; returns the number of bytes found before the end of the object.

        `once` says that nobody will read these bytes again soon, so that no cache has to keep them.
        """

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """Read one range to a place of the medium's choice inside a buffer that has two pages to spare.

        Returns that part of the buffer, and the number of bytes found.
        """

    def fileno(self) -> int:
        """Descriptor of the open file, for the compiled loop; OSError where the medium is not local."""

    def close(self) -> None:
        """Let go of the object."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class WriteHandle(Protocol):
    """An object that is open for writing in ranges."""

    @property
    def key(self) -> str:
        """The object's key, for messages."""

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        """Write buffers one behind the other from a byte offset."""

    def resize(self, size: int) -> None:
        """Make the object that long; bytes that nobody wrote are zeros."""

    def close(self) -> None:
        """Let go of the object."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Medium(Protocol):
    """Where bytes live. Picklable, and every call is thread-safe."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def is_local(self) -> bool:
        """Whether keys are paths of files that the compiled loop and the libraries of formats may open themselves."""

    @property
    def writes_ranges(self) -> bool:
        """Whether `writer` can write a part of an object."""

    @property
    def renames(self) -> bool:
        """Whether a key, or a folder of keys, can be given another name in one step."""

    # ---------------------------------------------------------------- bytes
    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> ReadHandle:
        """Open an object for reading; FileNotFoundError where there is none, at the latest at its first use.

        With roots, links are followed only inside them, and lead to an ExternalError otherwise. `direct` asks to read
        past the cache of the system, where that is possible.
        """

    def writer(self, key: str) -> WriteHandle:
        """Open an object for writing ranges (`writes_ranges`); it and its folders are made where they do not exist."""

    def write(self, key: str, parts: Sequence[Bytes]) -> None:
        """Write a whole object, its folders included, in the place of the one that has this key."""

    def create(self, key: str, data: Bytes, *, size: int | None = None) -> None:
        """Make a new object, durable, filled up with zeros to a size if that is given; nothing stays if it fails.

        FileExistsError where there is one: of several who try, one succeeds.
        """

    def replace(self, key: str, data: Bytes) -> None:
        """Write a whole object, durable, so that readers find the old bytes or the new ones, and nothing else."""

    def remove(self, key: str) -> None:
        """Remove an object; nothing happens where there is none."""

    # ---------------------------------------------------------------- names
    def status(self, key: str, *, roots: Roots | None = None, follow: bool = True) -> Status:
        """What lies under a key; FileNotFoundError where nothing does.

        Links are followed, with roots only inside them; without `follow` the link itself is described.
        """

    def entries(self, folder: str) -> Sequence[Listed]:
        """The names directly below a folder, in no order; FileNotFoundError where there is no such folder."""

    def make_folder(self, key: str) -> None:
        """Make a folder, so that it is there before anything is in it; FileExistsError where the key is taken."""

    # ---------------------------------------------------------------- what surrounds them
    def sync(self, key: str) -> None:
        """Make durable what was written to an object, or the names in a folder."""

    def sync_name(self, key: str) -> None:
        """Make durable that a key exists."""

    def sync_all(self, keys: Collection[str], folder: str) -> None:
        """Make objects below a folder durable, and all names that lead to them, that of the folder included."""

    def room(self, folder: str) -> Room:
        """How much more may be written below a folder."""

    def roots(self, key: str, allow: Sequence[str] = ()) -> Roots | None:
        """The roots of an array at a key and of the folders allowed beside it; None where a key cannot lead elsewhere.

        UsageError for an allowed folder that is not there.
        """
