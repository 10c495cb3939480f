"""Lay out a new NetCDF-3 file, and write its header.

The version is the oldest that can hold the file: CDF-1 up to 2 GiB, CDF-2 up to 4 GiB for each variable, CDF-5 for
anything larger, and for the types that only it has.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.storage.netcdf.classic import (
    ATTRIBUTES,
    DIMENSIONS,
    MAGIC,
    MAX_HEADER_BYTES,
    MAX_NAMES,
    TYPES,
    VARIABLES,
    ClassicHeader,
    ClassicVariable,
    padded,
)

#: Number of each type.
_CODES = {dtype.str[1:]: code for code, dtype in TYPES.items()}
#: The most bytes of a variable, or of a record of it, and the largest offset, by version.
_MOST_BYTES = {1: (1 << 31) - 4, 2: (1 << 32) - 4, 5: (1 << 63) - 4}
_MOST_OFFSET = {1: (1 << 31) - 1, 2: (1 << 63) - 1, 5: (1 << 63) - 1}
#: The longest dimension by version.
_MOST_LENGTH = {1: (1 << 31) - 4, 2: (1 << 31) - 4, 5: (1 << 63) - 4}


def type_code(dtype: np.dtype[Any]) -> int | None:
    """The number of a type, whatever its byte order; None if NetCDF-3 lacks it."""
    return _CODES.get(dtype.str[1:])


def lay_out(
    dimensions: Mapping[str, int],
    record_axis: str | None,
    attributes: Mapping[str, Any],
    variables: Sequence[ClassicVariable],
) -> ClassicHeader:
    """A new header with places for all variables; what `begin` is does not matter."""
    records = 0 if record_axis is None else dimensions[record_axis]
    draft = ClassicHeader(1, records, dimensions, record_axis, attributes, {one.name: one for one in variables}, 0)
    names = len(dimensions) + len(attributes) + sum(1 + len(one.attributes) for one in variables)
    if names > MAX_NAMES:
        raise UsageError(
            f"NetCDF-3 files of reblock have at most {MAX_NAMES:,} names, not {names:,}; zarr may have more"
        )
    for version in _versions(draft):
        placed = _place(replace(draft, version=version))
        if _fits(placed):
            break
    else:
        raise UsageError(f"NetCDF-3 cannot hold {draft.end_of_elements:,} bytes, its offsets have 63 bits")
    if placed.header_bytes > MAX_HEADER_BYTES:
        raise UsageError(
            f"the header would have {placed.header_bytes:,} bytes, the limit is {MAX_HEADER_BYTES:,}: "
            "shorten the attributes, or use netcdf"
        )
    return placed


def _versions(header: ClassicHeader) -> Sequence[int]:
    """The versions that have all types, the oldest first."""
    types = [variable.dtype for variable in header.variables.values()]
    for attributes in (header.attributes, *(variable.attributes for variable in header.variables.values())):
        types += [value.dtype for value in attributes.values() if isinstance(value, np.ndarray)]
    return (5,) if any((type_code(dtype) or 0) > 6 for dtype in types) else (1, 2, 5)


def _place(header: ClassicHeader) -> ClassicHeader:
    """The header with the length that it will have, and offsets of all variables."""
    size = len(write_header(header))
    offset = size
    placed = dict(header.variables)
    fixed = [one for one in placed.values() if not header.is_record(one)]
    for variable in (*fixed, *header.record_variables):
        placed[variable.name] = replace(variable, begin=offset)
        offset += padded(header.part_bytes(variable))
    return replace(header, variables=placed, header_bytes=size)


def _fits(header: ClassicHeader) -> bool:
    version = header.version
    # Only the last variable, or that of the last record, may be larger: no offset follows it.
    counted = [one for one in header.variables.values() if not header.is_record(one)]
    counted = header.record_variables[:-1] + counted if header.record_variables else counted[:-1]
    return (
        all(header.part_bytes(one) <= _MOST_BYTES[version] for one in counted)
        and all(one.begin <= _MOST_OFFSET[version] for one in header.variables.values())
        and all(length <= _MOST_LENGTH[version] for length in header.dimensions.values())
        and header.end_of_elements <= _MOST_OFFSET[5]
    )


# ---------------------------------------------------------------- bytes
def write_header(header: ClassicHeader) -> bytes:
    """The bytes of a header."""
    wide = header.version == 5
    offset = ">i" if header.version == 1 else ">q"

    def count(value: int) -> bytes:
        return struct.pack(">q", value) if wide else struct.pack(">i", min(value, (1 << 31) - 1))

    def text(value: str) -> bytes:
        return count(len(value.encode())) + _pad(value.encode())

    def entries(tag: int, some: Sequence[bytes]) -> bytes:
        return struct.pack(">i", tag if some else 0) + count(len(some)) + b"".join(some)

    def values(attributes: Mapping[str, Any]) -> bytes:
        return entries(ATTRIBUTES, [text(name) + _value(value, count) for name, value in attributes.items()])

    numbers = {name: number for number, name in enumerate(header.dimensions)}
    dimensions = [
        text(name) + count(0 if name == header.record_axis else length) for name, length in header.dimensions.items()
    ]
    variables = [
        text(one.name)
        + count(len(one.axes))
        + b"".join(count(numbers[axis]) for axis in one.axes)
        + values(one.attributes)
        + struct.pack(">i", type_code(one.dtype))
        + _stated(padded(header.part_bytes(one)), wide=wide)
        + struct.pack(offset, one.begin if one.begin <= _MOST_OFFSET[header.version] else 0)
        for one in header.variables.values()
    ]
    return b"".join(
        (
            MAGIC[header.version],
            _stated(header.records, wide=wide),
            entries(DIMENSIONS, dimensions),
            values(header.attributes),
            entries(VARIABLES, variables),
        )
    )


def _value(value: Any, count: Any) -> bytes:
    """An attribute's type, length and values; those of text are its bytes."""
    if isinstance(value, bytes):
        return struct.pack(">i", 2) + bytes(count(len(value))) + _pad(value)
    big = value.dtype.newbyteorder(">")
    data = value.tobytes() if value.dtype == big else value.byteswap().tobytes()
    return struct.pack(">i", type_code(big)) + bytes(count(value.size)) + _pad(data)


def _stated(size: int, *, wide: bool) -> bytes:
    """A size; if it does not fit into 32 bits, all ones."""
    return struct.pack(">q", size) if wide else struct.pack(">I", min(size, (1 << 32) - 1))


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
