"""What a storage adapter is: it says where bytes lie and what they mean; it runs no threads and no plans.

An adapter is a Format (opens and creates arrays) and a Store (one array). The engine does the I/O ::

    reading    store.extents(object, units) → engine: pread → store.decode(bytes, out) → scatter
    writing    gather → store.encode(buffer) → engine: pwrite at store.place(object)

Where only the format's library can find or place the bytes, the store's `TransferMode` says so, and the engine hands
over whole units (`write_unit`) or boxes (`read_box`, `write_box`) instead.

Bytes of a unit, decoded, are its elements in `layout.dtype`, axes in `layout.order`, overhang included: the
engine transposes, swaps bytes and pads, so that adapters never look at an array's values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reblock.geometry import Box
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema

#: Any run of bytes.
Bytes = bytes | bytearray | memoryview
#: A flat, writable array of bytes.
Flat = npt.NDArray[np.uint8]
#: Gives memory for what is made on the way, the same for the same name, as long as no more is asked for: name, size.
Scratch = Callable[[str, int], Flat]
#: Position of an object or unit in its grid, in the store's own axes and uncropped.
Index = tuple[int, ...]


def fresh(_: str, size: int) -> Flat:
    """Scratch memory for who has none."""
    return np.empty(size, np.uint8)


class Extent(NamedTuple):
    """Where a unit's bytes lie."""

    path: str
    """Key of the object on the store's medium: of a local file, its path."""
    offset: int = 0
    """First byte; a negative one counts from the end of the file."""
    length: int | None = None
    """Number of bytes; None = to the end of the file."""
    mask: int = 0
    """What else its decoder has to know: the filters that this unit skipped, or how its object was encoded."""
    whole: int | None = None
    """Bytes of the file that is made of several such pieces, so that room for it can be reserved at once."""


class Decoder(NamedTuple):
    """A codec's adapter in C, for engines that decode units without the interpreter (`engine/native/decoder.h`)."""

    adapter: str
    """Its name, by which the compiled engine finds the functions."""
    context: tuple[int, ...]
    """Numbers that the adapter alone understands, such as addresses of a library's functions."""
    table_bytes: int = 0
    """Bytes at the start of an object that tell where its parts lie, which are numbered as they lie on disk; 0 = units
    are not parts of an object."""
    lead_bytes: int = 0
    """Bytes that the adapter puts in front of a part to decode it."""


#: How an adapter asks the engine for bytes that tell where other bytes lie (a shard's index).
Read = Callable[[Extent], Bytes]


class TransferMode(StrEnum):
    """Which side moves the bytes of an array: the engine, or the library of the format."""

    EXTENT = "extent"
    """The engine, at the extents that the store names."""
    UNIT = "unit"
    """The engine encodes, the store's library places (`write_unit`)."""
    BOX = "box"
    """The store's library does it all (`read_box`, `write_box`), one call at a time."""


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
        """What the array is."""

    @property
    def layout(self) -> Layout:
        """Where its elements lie."""

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
        """How a unit is encoded, settings included; "" = raw, or not to be compared.

        A unit's stored bytes can be copied as they are between stores of the same encoding, type, unit shape and
        axis order, unless it skipped filters (`Extent.mask`).
        """

    @property
    def decoder(self) -> Decoder | None:
        """What does the same as `decode` without the interpreter, for units that skipped no filter; None = nothing.

        It may fail where `decode` does not, which is then asked.
        """

    @property
    def medium(self) -> Medium:
        """Where its bytes live; `Extent.path` is a key there."""

    @property
    def roots(self) -> Roots | None:
        """Where the files of its extents may lie; None = anywhere, for what we wrote ourselves."""

    @property
    def described_by(self) -> Sequence[str]:
        """Files that say what the array is; where one of them changes, it is another array."""

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:
        """Where some units of one object lie, in one visit; None = not stored.

        A named file that does not exist counts as not stored, so there is no need to look.
        """

    def place(self, index: Index) -> Extent:
        """Where a new object's bytes go; for encoded objects the length is None."""

    def preamble(self, index: Index) -> Bytes:
        """Bytes that precede the elements in a new object of its own file; their length is `place().offset`."""

    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        """Decode a unit's stored bytes into exactly `out.size` bytes; CorruptError if they are not that."""

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        """Encode an object's bytes (a whole shard where there are shards); the result may lie in scratch memory.

        With `room`, which begins with the data and may go on, it may lie there as well, and the data is lost.
        """

    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:
        """Read a box of one unit through the format's own library (`reads == BOX`); False where it is not stored."""

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:
        """Write a box through the format's own library (`writes == BOX`)."""

    def write_unit(self, index: Index, data: Bytes) -> None:
        """Hand over an encoded object (`writes == UNIT`)."""

    def checkpoint(self) -> None:
        """Make durable what was handed to `write_unit` and `write_box`; files that the engine wrote it syncs itself."""

    def commit(self, record: Record = NO_RECORD) -> None:
        """Finish the array: metadata last, everything durable, handles closed.

        The record is stored with it where the format has a place that other readers ignore, and may be asked for
        again as `schema.record`. It is never one of the attributes.
        """

    def abort(self) -> None:
        """Close handles and leave the files as they are."""


@runtime_checkable
class Measurable(Protocol):
    """A store that can tell how much is stored of its units without reading them."""

    def measured(self) -> Store:
        """The same array with `layout.stored_bytes`, where that is soon found out and makes a difference."""


@runtime_checkable
class Divisible(Protocol):
    """A store whose chunks may be read in parts."""

    def divided(self) -> Store | None:
        """The same array with parts of chunks for units, if its codec decodes them one by one; else None.

        Some chunks are looked at. Where another one turns out to be divided differently, reading it raises an
        UnevenError.
        """


@runtime_checkable
class Scattered(Protocol):
    """A store whose objects are files of their own, and that names many of them at once."""

    def object_files(self, outer: Index, last: range) -> Sequence[str]:
        """Files of the objects with these indices along all axes but the last, and those along the last.

        The same that `extents` names, but sooner said: all of them are looked at when a run begins and when it ends.
        """


@runtime_checkable
class Replaceable(Protocol):
    """A format whose arrays may be replaced: it can tell what at a path is the array, and what is not.

    Of a format that does not say so, nothing is ever replaced.
    """

    def strangers(self, path: str, *, medium: Medium = ...) -> Iterator[str]:
        """What lies at a path and does not belong to the one array there, in words, such as names of files.

        A StorageError says that there is no such array, or more than one. Takes little time for many chunks: they are
        known by their names.
        """


@runtime_checkable
class Foreseeable(Protocol):
    """A format that can tell what `create` would make, before it makes anything."""

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = ...) -> Store | None:
        """The store that `create` would make, for its places; None where that is one file. Nothing is touched.

        UsageError where it would make none, such as for an `inner` that the format has no place for.
        """


@runtime_checkable
class Format(Protocol):
    """Opens and creates arrays of one kind, on any medium or, as it then says in a UsageError, on local files only.

    `medium` is that of local files unless it is given.
    """

    @property
    def name(self) -> str:
        """As in `--from` and `--to`."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name endings, with the dot."""

    @property
    def checksum(self) -> str:
        """The codec that adds a checksum to a chunk; "" where the format has no place for one."""

    def probe(self, path: str, *, medium: Medium = ...) -> bool:
        """Whether the content of an existing path looks like this format."""

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = ...) -> Store:
        """Open an array for reading; `inner` is "" or a path without leading slash.

        Bytes come from `path` itself, links resolved, and from the folders in `allow`; an array that names any
        other file is refused with an ExternalError.
        """

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        """The nearest schema that this format can hold.

        Fields named in `asked` were given by the user: what cannot be held there is a UsageError. Anything
        else that is lost or changed is said in `notes`. No I/O.
        """

    def layout(self, schema: Schema) -> Layout:
        """Layout of an array that `create` would make of an adapted schema. No I/O."""

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = ...) -> Store:
        """Make a new array at a path that does not exist yet, ready for writing."""

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = ...) -> Store:
        """Go on writing an array that `create` has made of the same schema, and that was never finished.

        Whoever wrote it may have been killed at any moment. What was handed over before the last `checkpoint` is
        there; a StorageError says that it cannot be gone on with, and is to be made anew.
        """
