"""The protocol of a medium: where bytes are stored, and the only code that opens files or sends requests.

A medium holds objects under keys. A key is text: the path of a local file, or a URL such as `memory://NAME/a.zarr/c/0`.
Slashes in keys separate folders; a medium without folders of its own keeps a marker for each folder that was made.

::

    engine    store.extents(…) → Extent.path is a key → store.medium.reader(key) → bytes into the engine's buffers
    format    medium.status, entries, create, replace, sync: the metadata of an array

A missing object is a normal result, reported as FileNotFoundError; so is an existing one for `create` and
`make_folder`, reported as FileExistsError. Every other failure is a DiskError with key and errno.
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
#: Transfers of at least this many bytes bypass the page cache.
DIRECT_BYTES = 64 << 10
#: Kinds of things under a key; others are named in the same way, such as "a pipe".
FILE, FOLDER, LINK = "a file", "a folder", "a symbolic link"


def round_up(size: int) -> int:
    """The next multiple of a page."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


class Status(NamedTuple):
    """The status of an object: its size, and a stamp that changes whenever its bytes do."""

    size: int
    """Bytes."""
    identity: int
    """Differs between an object and its replacement: the inode, or a number derived from the ETag."""
    modified_ns: int
    """Time of the last write, by the clock of the medium."""
    changed_ns: int
    """Time of the last change of bytes, rights or names, which cannot be set; else the same as `modified_ns`."""
    kind: str = FILE
    """Its kind, for messages: FILE, FOLDER, LINK or something else."""


class Listed(NamedTuple):
    """A name in a folder."""

    name: str
    """The last part of its key."""
    kind: str
    """Its kind; links are not followed."""


class Room(NamedTuple):
    """How much more a medium can hold."""

    device: str
    """Its device; keys on the same device share the space."""
    free_bytes: int | None
    """Bytes that may still be written; None = no known limit."""
    free_objects: int | None
    """Objects that may still be made; None = no known limit."""


@runtime_checkable
class ReadHandle(Protocol):
    """An object that is open for reading. Several threads may read at once."""

    @property
    def key(self) -> str:
        """The object's key, for messages."""

    def size(self) -> int:
        """Bytes of the object."""

    def status(self) -> Status:
        """The status of the object."""

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        """Fill a view from a byte offset; returns the number of bytes found before the end of the object.

        `once` means that these bytes will not be read again soon, so no cache needs to keep them.
        """

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """Read one range into a part of a buffer that the medium chooses; the buffer is two pages larger.

        Returns that part of the buffer, and the number of bytes found.
        """

    def fileno(self) -> int:
        """Descriptor of the open file, for the compiled loop; OSError if the medium is not local."""

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
        """Write buffers consecutively from a byte offset."""

    def resize(self, size: int) -> None:
        """Set the length of the object; bytes that were never written are zeros."""

    def close(self) -> None:
        """Let go of the object."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Medium(Protocol):
    """Where bytes are stored. Picklable, and every call is thread-safe."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def is_local(self) -> bool:
        """Whether keys are paths of files that the compiled loop and the formats' libraries may open."""

    @property
    def writes_ranges(self) -> bool:
        """Whether `writer` can write a part of an object."""

    @property
    def renames(self) -> bool:
        """Whether a key, or a folder of keys, can be renamed in one step."""

    # ---------------------------------------------------------------- bytes
    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> ReadHandle:
        """Open an object for reading; FileNotFoundError if there is none, at the latest on first use.

        With roots, links are followed only inside them; others raise an ExternalError. `direct` bypasses the system's
        cache, if that is possible.
        """

    def writer(self, key: str) -> WriteHandle:
        """Open an object for writing ranges (`writes_ranges`); it and its folders are made if they do not exist."""

    def write(self, key: str, parts: Sequence[Bytes]) -> None:
        """Write a whole object, making its folders and replacing any object with this key."""

    def create(self, key: str, data: Bytes, *, size: int | None = None) -> None:
        """Make a new, durable object, padded with zeros to a size if that is given; a failure leaves nothing.

        FileExistsError if there is one: of several callers, one succeeds.
        """

    def replace(self, key: str, data: Bytes) -> None:
        """Write a whole object durably and atomically: readers find the old bytes or the new ones."""

    def remove(self, key: str) -> None:
        """Remove an object, if it exists."""

    # ---------------------------------------------------------------- names
    def status(self, key: str, *, roots: Roots | None = None, follow: bool = True) -> Status:
        """The status of a key; FileNotFoundError if it does not exist.

        Links are followed, with roots only inside them; without `follow` the link itself is described.
        """

    def entries(self, folder: str) -> Sequence[Listed]:
        """The names directly below a folder, in any order; FileNotFoundError if there is no such folder."""

    def make_folder(self, key: str) -> None:
        """Make an empty folder; FileExistsError if the key is taken."""

    # ---------------------------------------------------------------- what surrounds them
    def sync(self, key: str) -> None:
        """Make the bytes of an object, or the names in a folder, durable."""

    def sync_name(self, key: str) -> None:
        """Make the existence of a key durable."""

    def sync_all(self, keys: Collection[str], folder: str) -> None:
        """Make objects below a folder durable, and all names that lead to them, including the folder's own."""

    def room(self, folder: str) -> Room:
        """How much more may be written below a folder."""

    def roots(self, key: str, allow: Sequence[str] = ()) -> Roots | None:
        """The roots of an array at a key, with the allowed folders; None if a key cannot lead elsewhere.

        Raises UsageError for an allowed folder that does not exist.
        """


@runtime_checkable
class Surveyor(Protocol):
    """A medium that looks at many objects with few requests."""

    def survey(self, keys: Sequence[str]) -> Sequence[Status | None]:
        """The status of each object; None = there is none."""
