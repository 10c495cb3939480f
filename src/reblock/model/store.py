"""The protocols of a storage adapter, which states where bytes are and what they mean; it has no threads and no plans.

An adapter is a Format (opens and creates arrays) and a Store (one array). The engine does the I/O ::

    reading    store.extents(object, units) → engine: pread → store.decode(bytes, out) → scatter
    writing    gather → store.encode(buffer) → engine: pwrite at store.place(object)

If only the format's library can find or place the bytes, the store's `TransferMode` says so, and the engine passes
whole units (`write_unit`) or boxes (`read_box`, `write_box`) instead.

The decoded bytes of a unit are its elements in `layout.dtype`, with axes in `layout.order` and overhang included. The
engine transposes, swaps bytes and pads, so adapters never look at an array's values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reblock.geometry import Box
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema

#: Any run of bytes.
Bytes = bytes | bytearray | memoryview
#: A flat, writable array of bytes.
Flat = npt.NDArray[np.uint8]
#: Returns a named scratch buffer of a size, reused between calls.
Scratch = Callable[[str, int], Flat]
#: Position of an object or unit in its grid, in the store's own axes and uncropped.
Index = tuple[int, ...]


def fresh(_: str, size: int) -> Flat:
    """Scratch memory that is allocated for each call."""
    return np.empty(size, np.uint8)


class Extent(NamedTuple):
    """Where a unit's bytes are."""

    path: str
    """Key of the object on the store's medium; for a local file, its path."""
    offset: int = 0
    """First byte; a negative offset counts from the end of the file."""
    length: int | None = None
    """Number of bytes; None = to the end of the file."""
    mask: int = 0
    """More for its decoder: the filters that this unit skipped, or how its object was encoded."""
    whole: int | None = None
    """Bytes of the whole file, if it consists of several such pieces, so that space can be reserved at once."""


class Decoder(NamedTuple):
    """A codec's adapter in C, for engines that decode units without the interpreter (`engine/native/decoder.h`)."""

    adapter: str
    """Name by which the compiled engine finds its functions."""
    context: tuple[int, ...]
    """Numbers for the adapter, such as addresses of a library's functions."""
    table_bytes: int = 0
    """Bytes at the start of an object with the positions of its parts, which are numbered in disk order; 0 = units are
    not parts of an object."""
    lead_bytes: int = 0
    """Bytes that the adapter puts in front of a part to decode it."""
    planes: int = 0
    """Bytes of an element, if units decode to the first bytes of all elements, then their second bytes, and so on;
    0 = elements are whole."""


#: Reads bytes for an adapter that contain the positions of other bytes, such as a shard's index.
Read = Callable[[Extent], Bytes]


class TransferMode(StrEnum):
    """Which side moves the bytes of an array: the engine, or the library of the format."""

    EXTENT = "extent"
    """The engine moves the bytes, at the extents that the store names."""
    UNIT = "unit"
    """The engine encodes, and the store's library writes (`write_unit`)."""
    BOX = "box"
    """The store's library does everything (`read_box`, `write_box`), one call at a time."""


@runtime_checkable
class Store(Protocol):
    """One array on storage. Picklable; calls other than read_box, write_box and write_unit are thread-safe."""

    @property
    def format(self) -> str:
        """Name of the format."""

    @property
    def location(self) -> str:
        """`PATH[::INNER]`, for messages."""

    @property
    def schema(self) -> Schema:
        """The array's schema."""

    @property
    def layout(self) -> Layout:
        """The array's layout."""

    @property
    def reads(self) -> TransferMode:
        """How its bytes are read: EXTENT or BOX."""

    @property
    def writes(self) -> TransferMode:
        """How its bytes are written."""

    @property
    def fills(self) -> bool:
        """Whether the format defines objects that are not stored as fill."""

    @property
    def encoding(self) -> str:
        """How a unit is encoded, including settings; "" = raw, or not comparable.

        A unit's stored bytes can be copied unchanged between stores of the same encoding, type, unit shape and axis
        order, unless it skipped filters (`Extent.mask`).
        """

    @property
    def decoder(self) -> Decoder | None:
        """A decoder that needs no interpreter, for units that skipped no filter; None = there is none.

        It may fail where `decode` succeeds; then `decode` is called.
        """

    @property
    def medium(self) -> Medium:
        """The medium of its bytes; `Extent.path` is a key on it."""

    @property
    def roots(self) -> Roots | None:
        """Where the files of its extents may be; None = anywhere, for arrays that we write."""

    @property
    def described_by(self) -> Sequence[str]:
        """Files that describe the array; if one of them changes, it is another array."""

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:
        """Extents of some units of one object, in one visit; None = not stored.

        A named file that does not exist counts as not stored, so the store need not check.
        """

    def place(self, index: Index) -> Extent:
        """The extent of a new object; for encoded objects the length is None."""

    def preamble(self, index: Index) -> Bytes:
        """Bytes before the elements of a new object with its own file; their length is `place().offset`."""

    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        """Decode a unit's stored bytes into exactly `out.size` bytes; CorruptError if they are not that."""

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        """Encode an object's bytes (a whole shard if there are shards); the result may be in scratch memory.

        With `room`, which begins with the data and may be longer, the result may be there, and the data is lost.
        """

    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:
        """Read a box of one unit through the format's own library (`reads == BOX`); False if it is not stored."""

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:
        """Write a box through the format's own library (`writes == BOX`)."""

    def write_unit(self, index: Index, data: Bytes) -> None:
        """Write an encoded object through the format's library (`writes == UNIT`)."""

    def checkpoint(self) -> None:
        """Make durable what `write_unit` and `write_box` have written; the engine syncs its own files."""

    def commit(self, record: Record = NO_RECORD) -> None:
        """Finish the array: metadata last, everything durable, handles closed.

        The record is stored with it if the format has a place that other readers ignore, and is then available as
        `schema.record`. It is never an attribute.
        """

    def abort(self) -> None:
        """Close handles and leave the files as they are."""


@runtime_checkable
class Measurable(Protocol):
    """A store that can look up the stored sizes of its units without reading them."""

    def measured(self) -> Store:
        """The same array with `layout.stored_bytes`, if that is quick to look up and useful."""


@runtime_checkable
class Divisible(Protocol):
    """A store whose chunks may be read in parts."""

    def divided(self) -> Store | None:
        """The same array with parts of chunks as units, if its codec can decode them separately; else None.

        The headers of some chunks are read. If another chunk turns out to be divided differently, reading it raises an
        UnevenError.
        """


@runtime_checkable
class Scattered(Protocol):
    """A store whose objects are files of their own, and that can name many of them at once."""

    def object_files(self, outer: Index, last: range) -> Sequence[str]:
        """Files of the objects with these indices along all axes except the last, and those along the last.

        The same files as in `extents`, but faster: all of them are checked when a run begins and when it ends.
        """


@runtime_checkable
class Updatable(Protocol):
    """A store whose elements can be replaced after it was published."""

    def update(self, box: Box, steps: Sequence[int], values: npt.NDArray[Any]) -> None:
        """Replace every `steps`-th element of a box, all of them or none; readers find old chunks or new ones."""


@runtime_checkable
class Composite(Protocol):
    """A store that consists of other stored arrays."""

    @property
    def member_paths(self) -> Sequence[str]:
        """Files and folders of these arrays."""


@runtime_checkable
class ObjectBound(Protocol):
    """A store that reads an object of this process: no path leads to it, so that no run from it can be resumed."""

    @property
    def backing(self) -> Sequence[str]:
        """Local files and folders that the object is known to read."""


@runtime_checkable
class Replaceable(Protocol):
    """A format whose arrays may be replaced: it can tell what at a path belongs to the array.

    Arrays of other formats are never replaced.
    """

    def strangers(self, path: str, *, medium: Medium = ...) -> Iterator[str]:
        """What at a path does not belong to the one array there, in words, such as names of files.

        Raises StorageError if there is no such array, or more than one. Must be fast for many chunks, which are
        recognised by name.
        """


@runtime_checkable
class Foreseeable(Protocol):
    """A format that can describe what `create` would make, without making anything."""

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = ...) -> Store | None:
        """The store that `create` would make, for its places; None if that is one file. Nothing is touched.

        Raises UsageError if it would make none, such as for an `inner` that the format has no place for.
        """


@runtime_checkable
class AddingFormat(Protocol):
    """A format that can add an array to an existing file."""

    def probe(self, path: str, *, medium: Medium = ...) -> bool:
        """Whether a path holds this format."""

    def can_add(self, path: str, inner: str, schema: Schema | None) -> bool:
        """Whether a name is new in a file; UsageError if an array of the adapted schema has no place there."""

    def add(self, path: str, inner: str, schema: Schema) -> Store:
        """Like `create`, in an existing file; a kill may damage it, so it must be a copy."""


@runtime_checkable
class Varied(Protocol):
    """A format with variants, whose names are `NAME:WORDS`."""

    def variant(self, said: str) -> Format:
        """The variant that the words after the colon describe; its name tells them, too. UsageError if none does."""


@runtime_checkable
class Placed(Protocol):
    """A format of single files whose head, the bytes before the elements, tells where an array is in space."""

    def moved_head(self, head: bytes, origin: Sequence[int]) -> bytes:
        """The head of a part that begins at `origin` of the array with this head; it is as long."""


class ChunkLimits(NamedTuple):
    """Chunks that a format can hold."""

    chunked: bool = True
    """Whether the array can be cut into chunks; otherwise it is one."""
    most_bytes: int | None = None
    """The most bytes of a chunk, decoded; None = no limit."""
    shard_chunks: int = 0
    """The most chunks in a shard; 0 = the format has no shards."""
    ordered: bool = False
    """Whether chunks outside of shards have an order, too."""


@runtime_checkable
class EmptyCreator(Protocol):
    """A format that can make an array without elements, which updates fill."""

    def create_empty(
        self, path: str, inner: str, schema: Schema, *, lower_bounds: Sequence[int] = (), medium: Medium = ...
    ) -> Store:
        """A published array of an adapted schema, all of whose elements are the fill value.

        `lower_bounds` are the indices of the first element for other programs. TargetExistsError if anything is there.
        """


@runtime_checkable
class FileFormat(Protocol):
    """A format with one file per array, so that a target can be built in one place and moved to another."""

    single_file: bool
    """Whether every array of this format is one file."""


def is_single_file(format: Format) -> bool:
    """Whether arrays of a format are one file each."""
    return isinstance(format, FileFormat) and format.single_file


@runtime_checkable
class ChunkLimited(Protocol):
    """A format that limits chunks; others can hold any, but no shards."""

    def chunk_limits(self, codec: Codec) -> ChunkLimits:
        """The limits for chunks that a codec encodes. No I/O."""


@runtime_checkable
class Format(Protocol):
    """Opens and creates arrays of one kind, on any medium, or only on local files; then other media are a UsageError.

    `medium` is that of local files by default.
    """

    @property
    def name(self) -> str:
        """As in `--from` and `--to`."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name endings, with the dot."""

    @property
    def checksum(self) -> str:
        """The codec that adds a checksum to a chunk; "" if the format has no place for one."""

    def probe(self, path: str, *, medium: Medium = ...) -> bool:
        """Whether the content of an existing path looks like this format."""

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = ...) -> Store:
        """Open an array for reading; `inner` is "" or a path without leading slash.

        Bytes come from the real `path` and from the folders in `allow`; an array that names any other file is refused
        with an ExternalError.
        """

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        """The nearest schema that this format can hold.

        The user requested the fields named in `asked`: if one cannot be held, that is a UsageError. Anything else that
        is lost or changed is in `notes`. No I/O.
        """

    def layout(self, schema: Schema) -> Layout:
        """Layout of the array that `create` would make from an adapted schema. No I/O."""

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = ...) -> Store:
        """Make a new array at a path that does not exist yet, ready for writing."""

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = ...) -> Store:
        """Continue writing an array that `create` has made from the same schema, and that was never finished.

        Its writer may have been killed at any moment. Everything up to the last `checkpoint` is there. A StorageError
        means that the array cannot be continued and must be made again.
        """
