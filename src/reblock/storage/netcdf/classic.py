"""Headers of NetCDF-3 files (CDF-1, CDF-2 and CDF-5): read, checked and laid out; no elements.

::

    magic  records  dimensions  attributes  variables     all numbers big-endian, everything padded to 4 bytes
    ├─ header ─┼─ fixed variable ─┼─ fixed variable ─┼─ record 0 ─────┼─ record 1 ─────┼─ …
                                                     │ a[0] │ b[0]    │ a[1] │ b[1]    │

A dimension of length 0 in the header is the record dimension. The variables that have it, as their first axis, are cut
into records, and the records of all of them are interleaved. With a single record variable there is no padding between
its records, so its elements are one run of bytes. CDF-2 has offsets of 64 bits, CDF-5 counts and more types too.

Every count and offset is checked against the size of the file before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any, TypeVar

import numpy as np

from reblock.errors import CorruptError, FormatError
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.storage.checks import MAX_BYTES, MAX_RANK, check_shape, show
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL

#: The first bytes of each version.
MAGIC = {1: b"CDF\x01", 2: b"CDF\x02", 5: b"CDF\x05"}
#: Types by their number; those from 7 on are only in CDF-5.
TYPES: dict[int, np.dtype[Any]] = dict(
    enumerate(map(np.dtype, ("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8")), start=1)
)
_CHAR = 2
#: Tags of the lists in a header.
DIMENSIONS, VARIABLES, ATTRIBUTES = 10, 11, 12
#: The longest header, and the most dimensions, variables and attributes in it; Python needs much more memory for each.
MAX_HEADER_BYTES, MAX_NAMES = 16 << 20, 200_000
#: The longest name, as in the NetCDF library.
MAX_NAME_BYTES = 256
#: Bytes that are read at first.
_FIRST_BYTES = 1 << 16

_T = TypeVar("_T")


@dataclass(frozen=True)
class ClassicVariable:
    """A variable of a NetCDF-3 file."""

    name: str
    """Its name."""
    axes: tuple[str, ...]
    """Names of its dimensions."""
    dtype: np.dtype[Any]
    """Type of an element, big-endian."""
    attributes: Mapping[str, Any]
    """Its attributes: text as bytes, numbers as arrays in the byte order of this machine."""
    begin: int
    """Offset of its first element."""


@dataclass(frozen=True)
class ClassicHeader:
    """Everything that the header of a NetCDF-3 file says, except where its elements end."""

    version: int
    """1, 2 or 5."""
    records: int
    """Length of the record dimension."""
    dimensions: Mapping[str, int]
    """Lengths by name, in the order of the file; that of the record dimension is `records`."""
    record_axis: str | None
    """Name of the record dimension, if there is one."""
    attributes: Mapping[str, Any]
    """Attributes of the file, like those of variables."""
    variables: Mapping[str, ClassicVariable]
    """Variables by name, in the order of the file."""
    header_bytes: int
    """Length of the header."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What is odd about the file, in words."""

    def shape(self, variable: ClassicVariable) -> tuple[int, ...]:
        """Lengths of a variable's axes."""
        return tuple(self.dimensions[name] for name in variable.axes)

    def is_record(self, variable: ClassicVariable) -> bool:
        """Whether a variable is cut into records."""
        return bool(variable.axes) and variable.axes[0] == self.record_axis

    def part_bytes(self, variable: ClassicVariable) -> int:
        """Bytes of a variable's elements that lie together: all of them, or those of one record."""
        shape = self.shape(variable)[1:] if self.is_record(variable) else self.shape(variable)
        return prod(shape) * variable.dtype.itemsize

    @property
    def record_variables(self) -> list[ClassicVariable]:
        """The variables that are cut into records."""
        return [variable for variable in self.variables.values() if self.is_record(variable)]

    @property
    def record_bytes(self) -> int:
        """Bytes from one record to the next."""
        parts = [self.part_bytes(variable) for variable in self.record_variables]
        return parts[0] if len(parts) == 1 else sum(map(padded, parts))

    def end(self, variable: ClassicVariable) -> int:
        """Offset behind the last element of a variable; 0 if it has none."""
        last = 0
        if self.is_record(variable):
            if not self.records:
                return 0
            last = (self.records - 1) * self.record_bytes
        return variable.begin + last + self.part_bytes(variable)

    @property
    def end_of_elements(self) -> int:
        """Offset behind the last element of all variables."""
        return max([self.header_bytes, *map(self.end, self.variables.values())])


def padded(size: int) -> int:
    """The next multiple of 4."""
    return -(-size // 4) * 4


def is_classic(head: bytes) -> bool:
    """Whether the first bytes of a file are those of NetCDF-3."""
    return head[:4] in MAGIC.values()


def read_classic(path: str, roots: Roots | None = None, *, medium: Medium = LOCAL) -> ClassicHeader:
    """Read and check the header of a NetCDF-3 file; FormatError or CorruptError if anything is wrong with it."""
    with disk_errors("read", path), medium.reader(path, roots=roots) as handle:
        size = handle.size()

        def more(start: int, stop: int) -> bytes:
            data = bytearray(stop - start)
            return bytes(data[: handle.read(memoryview(data), start)])

        return parse_classic(more, size, where=path)


def parse_classic(read: Callable[[int, int], bytes], size: int, *, where: str) -> ClassicHeader:
    """A header from a function that reads bytes from one offset to another, and the size of the file."""
    cursor = _Cursor(read, size, where)
    magic = cursor.take(4)
    version = next((version for version, known in MAGIC.items() if magic == known), None)
    if version is None:
        raise FormatError(f"{where}: not a NetCDF-3 file: it starts with {magic!r}, not CDF and 1, 2 or 5")
    cursor.wide = version == 5
    records = cursor.records()
    dimensions = _read_dimensions(cursor)
    attributes = _read_attributes(cursor, version)
    raw = cursor.entries(VARIABLES, "variables", least=20, read=lambda: _read_variable(cursor, version, dimensions))
    lengths = dict(dimensions)
    record_axis = next((name for name, length in dimensions if length == 0), None)
    if record_axis is not None:
        lengths[record_axis] = 0
    header = ClassicHeader(
        version, 0, lengths, record_axis, attributes, {one.name: one for one, _ in raw}, cursor.position
    )
    if len(header.variables) < len(raw):
        raise FormatError(f"{where}: two variables have the same name")
    _check_variables(header, raw, where)
    return _with_records(header, records, size, where)


# ---------------------------------------------------------------- the lists
def _read_dimensions(cursor: _Cursor) -> list[tuple[str, int]]:
    """Names and lengths in the order of their numbers; 0 is the record dimension."""
    least = 16 if cursor.wide else 8

    def one() -> tuple[str, int]:
        return cursor.name("a dimension"), cursor.count("the length of a dimension")

    found = cursor.entries(DIMENSIONS, "dimensions", least=least, read=one)
    if len(dict(found)) < len(found):
        raise FormatError(f"{cursor.where}: two dimensions have the same name")
    if len(unlimited := [name for name, length in found if length == 0]) > 1:
        raise FormatError(f"{cursor.where}: {len(unlimited)} record dimensions ({show(unlimited)}), there can be one")
    return found


def _read_attributes(cursor: _Cursor, version: int) -> dict[str, Any]:
    def one() -> tuple[str, Any]:
        name = cursor.name("an attribute")
        code, dtype = cursor.type(version)
        count = cursor.count(f"the length of attribute {name!r}")
        cursor.check_room(count * dtype.itemsize, f"attribute {name!r}")
        data = cursor.take(count * dtype.itemsize)
        cursor.skip_padding()
        if code == _CHAR:
            return name, data
        values = np.frombuffer(data, dtype)
        # A cast could change the bits of a NaN.
        return name, (values.copy() if dtype.isnative else values.byteswap().view(dtype.newbyteorder("=")))

    found = cursor.entries(ATTRIBUTES, "attributes", least=12, read=one)
    if len(dict(found)) < len(found):
        raise FormatError(f"{cursor.where}: two attributes of one thing have the same name")
    return dict(found)


def _read_variable(cursor: _Cursor, version: int, dimensions: Sequence[tuple[str, int]]) -> tuple[ClassicVariable, int]:
    """A variable, and the size of a part of it as the file states it."""
    name = cursor.name("a variable")
    where = f"{cursor.where}::{name}"
    rank = cursor.count(f"the number of axes of {name!r}")
    if rank > MAX_RANK:
        raise FormatError(f"{where}: {rank:,} axes are more than the {MAX_RANK} that are supported")
    numbers = [cursor.count("the number of a dimension") for _ in range(rank)]
    if wrong := [number for number in numbers if number >= len(dimensions)]:
        raise FormatError(f"{where}: dimension {wrong[0]:,} is not there; the file has {len(dimensions):,}, from 0")
    axes = tuple(dimensions[number][0] for number in numbers)
    if any(dimensions[number][1] == 0 for number in numbers[1:]):
        raise FormatError(f"{where}: the record dimension is not its first axis, as NetCDF-3 requires, but in {axes}")
    attributes = _read_attributes(cursor, version)
    _, dtype = cursor.type(version)
    stated = cursor.number(8 if cursor.wide else 4)
    begin = cursor.number(4 if version == 1 else 8)
    if begin >= MAX_BYTES:
        raise FormatError(f"{where}: its elements begin at {show(begin)}, beyond the end of any file")
    return ClassicVariable(name, axes, dtype, attributes, begin), stated


# ---------------------------------------------------------------- checks of the whole
def _check_variables(header: ClassicHeader, raw: Sequence[tuple[ClassicVariable, int]], where: str) -> None:
    """Sizes that agree with the dimensions, and places that do not overlap."""
    fixed: list[tuple[int, int, str]] = []
    slots: list[tuple[int, int, str]] = []
    for variable, stated in raw:
        here = f"{where}::{variable.name}"
        record = header.is_record(variable)
        check_shape(header.shape(variable)[record:], where=here, itemsize=variable.dtype.itemsize)
        part = header.part_bytes(variable)
        _check_stated(stated, part, wide=header.version == 5, record=record, where=here)
        if part and variable.begin < header.header_bytes:
            raise FormatError(
                f"{here}: its elements begin at {variable.begin}, inside the header of {header.header_bytes} bytes"
            )
        (slots if record else fixed).append((variable.begin, part, variable.name))
    for places in (sorted(fixed), sorted(slots)):
        for (begin, part, name), (other, _, after) in pairwise(places):
            if begin + part > other:
                raise FormatError(
                    f"{where}: the elements of {name!r}, {part} bytes at {begin}, overlap those of {after!r}"
                )
    if slots:
        first, (last, part, name) = min(slots)[0], max(slots)
        if last + part > first + header.record_bytes:
            raise FormatError(
                f"{where}: a record of {name!r} ends {last + part - first} bytes after the record begins, "
                f"a record has {header.record_bytes}"
            )


def _check_stated(stated: int, part: int, *, wide: bool, record: bool, where: str) -> None:
    """The size in the header is redundant; if it differs from that of the dimensions, one of them is wrong."""
    likely = {part, padded(part)}
    if not wide and padded(part) >= 1 << 32:
        # Too large for the field: all ones by the specification; some programs let it wrap around.
        likely = {(1 << 32) - 1, part % (1 << 32), padded(part) % (1 << 32)}
    if record:
        # Some programs state 0 as long as there are no records.
        likely.add(0)
    if stated not in likely:
        raise FormatError(f"{where}: the header states {stated:,} bytes, the dimensions give {padded(part):,}")


def _with_records(header: ClassicHeader, records: int | None, size: int, where: str) -> ClassicHeader:
    """The header with the length of its record dimension, if all elements are in the file."""
    notes: list[str] = []
    slots, step = header.record_variables, header.record_bytes
    if records is None:
        # A program that streams does not know how many records will follow.
        begin = min((variable.begin for variable in slots), default=0)
        parts = max((variable.begin - begin + header.part_bytes(variable) for variable in slots), default=0)
        room = size - begin
        records = 0 if not step or room < parts else (room - parts) // step + 1
        if rest := (room - records * step if step and room > records * step else 0):
            notes.append(f"{rest:,} bytes after the last whole record are not read")
    if records and header.record_axis is not None:
        header = replace(header, dimensions={**header.dimensions, header.record_axis: records})
    header = replace(header, records=records, notes=tuple(notes))
    for variable in header.variables.values():
        here = f"{where}::{variable.name}"
        check_shape(header.shape(variable), where=here, itemsize=variable.dtype.itemsize)
        end = header.end(variable)
        if header.part_bytes(variable) and end > size:
            raise CorruptError(f"{here}: its elements end at byte {end:,}, the file has {size:,}: it is truncated")
    return header


# ---------------------------------------------------------------- bytes
class _Cursor:
    """Reads a header from its beginning on; the bytes are read in growing pieces."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, where: str) -> None:
        self.where = where
        self.wide = False
        self.position = 0
        self._read = read
        self._size = size
        self._data = b""
        self._names = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        stop = self.position + count
        while stop > len(self._data):
            self._more(stop)
        data = self._data[self.position : stop]
        self.position = stop
        return data

    def _more(self, stop: int) -> None:
        if stop > self._size:
            raise FormatError(f"{self.where}: the file ends inside its header, after {self._size:,} bytes")
        if stop > MAX_HEADER_BYTES:
            raise FormatError(f"{self.where}: a header of more than {MAX_HEADER_BYTES:,} bytes, which is the limit")
        have = len(self._data)
        wanted = min(max(stop, 2 * have, _FIRST_BYTES), self._size, MAX_HEADER_BYTES)
        self._data += self._read(have, wanted)
        if len(self._data) < wanted:
            raise CorruptError(f"{self.where}: only {len(self._data):,} of {self._size:,} bytes can be read")

    def check_room(self, count: int, what: str) -> None:
        """Raise FormatError if there are fewer bytes left in the file."""
        if count > self._size - self.position:
            raise FormatError(
                f"{self.where}: {what} takes {count:,} bytes at {self.position:,}, the file has {self._size:,}"
            )

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def count(self, what: str) -> int:
        """A number that must not be negative."""
        size = 8 if self.wide else 4
        value = int.from_bytes(self.take(size), "big", signed=True)
        if value < 0:
            raise FormatError(f"{self.where}: {what} is negative: {value}")
        return value

    def records(self) -> int | None:
        """The number of records; None if the writer did not know it."""
        size = 8 if self.wide else 4
        value = self.number(size)
        if value == (1 << 8 * size) - 1:
            return None
        if self.wide and value >= MAX_BYTES:
            raise FormatError(f"{self.where}: the number of records is negative: {value - (1 << 64)}")
        return value

    def skip_padding(self) -> None:
        self.take(-self.position % 4)

    def name(self, what: str) -> str:
        """A name: Unicode text without slashes."""
        count = self.count(f"the length of the name of {what}")
        if not 0 < count <= MAX_NAME_BYTES:
            raise FormatError(
                f"{self.where}: the name of {what} has {count:,} bytes, from 1 to {MAX_NAME_BYTES} are possible"
            )
        data = self.take(count)
        self.skip_padding()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise FormatError(f"{self.where}: the name of {what} is not UTF-8: {data!r}") from None
        if what != "an attribute" and ("/" in text or text in (".", "..")):
            raise FormatError(
                f"{self.where}: {what} is called {text!r}; a slash separates groups, '.' and '..' are paths"
            )
        if "\0" in text:
            raise FormatError(f"{self.where}: the name of {what} contains NUL: {text!r}")
        return text

    def type(self, version: int) -> tuple[int, np.dtype[Any]]:
        code = self.number()
        if code not in TYPES or (code > 6 and version != 5):
            raise FormatError(
                f"{self.where}: type {code} is not one of CDF-{version}, which are 1 to {6 if version != 5 else 11}"
            )
        return code, TYPES[code]

    def entries(self, tag: int, what: str, *, least: int, read: Callable[[], _T]) -> list[_T]:
        """The entries of a list, each of which takes at least some bytes."""
        found, count = self.number(), self.count(f"the number of {what}")
        if found == 0 and count == 0:
            return []
        if found != tag:
            raise FormatError(f"{self.where}: tag {found} where a list of {what} has {tag}")
        self.check_room(count * least, f"a list of {count:,} {what}")
        self._names += count
        if self._names > MAX_NAMES:
            raise FormatError(f"{self.where}: {self._names:,} names of {what} and others, the limit is {MAX_NAMES:,}")
        return [read() for _ in range(count)]
