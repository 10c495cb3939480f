"""Headers of .npy files, for files of one array and for blocks.

They are read by numpy, without pickles and within size limits, and written at a chosen length.
"""

from __future__ import annotations

import struct
import tokenize
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from reblock.errors import FormatError, UsageError
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema
from reblock.storage.checks import check_dtype, check_shape
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import read_head

MAGIC = b"\x93NUMPY"
#: The longest header text; numpy's own limit, because a header is evaluated as a literal.
MAX_HEADER = 10_000
#: Magic, version, and the longest length field.
_PREFIX = len(MAGIC) + 2 + 4


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """The header of a .npy file."""

    shape: tuple[int, ...]
    """Lengths of the axes."""
    dtype: np.dtype[Any]
    """Type of an element, byte order included."""
    fortran: bool
    """Whether the first axis is the fastest."""
    offset: int
    """Bytes before the first element."""

    @property
    def order(self) -> tuple[int, ...]:
        """Order of the axes in the file, outermost first."""
        axes = range(len(self.shape))
        return tuple(reversed(axes) if self.fortran else axes)


def read_header(path: str, roots: Roots | None = None, *, medium: Medium = LOCAL) -> NpyHeader:
    """Read and check the header of a .npy file, but not its elements."""
    head, size = read_head(medium, path, _PREFIX + MAX_HEADER, roots)
    if not head.startswith(MAGIC):
        raise FormatError(f"{path}: not a .npy file: it starts with {head[:6]!r}, not {MAGIC!r}")
    if head[6:8] == b"\1\0":
        field, read = "<H", npy_format.read_array_header_1_0
    elif head[6:8] in (b"\2\0", b"\3\0"):
        # Version 3 differs from 2 only by non-ASCII field names, and types with fields are refused below.
        field, read = "<I", npy_format.read_array_header_2_0
    else:
        raise FormatError(f"{path}: .npy version {list(head[6:8])} is not supported; 1.0, 2.0 and 3.0 are")
    start = 8 + struct.calcsize(field)
    if len(head) < start:
        raise FormatError(f"{path}: the file ends inside its header, after {size} bytes")
    offset = start + struct.unpack_from(field, head, 8)[0]
    if offset > start + MAX_HEADER:
        raise FormatError(f"{path}: a header of {offset - start:,} bytes, the limit is {MAX_HEADER:,}")
    if offset > len(head):
        raise FormatError(f"{path}: the header has {offset:,} bytes, the file only {size:,}")
    try:
        with warnings.catch_warnings():
            # Python 2 wrote 3L for 3; numpy reads that with a warning.
            warnings.simplefilter("ignore", UserWarning)
            shape, fortran, dtype = read(BytesIO(head[8:offset]), max_header_size=MAX_HEADER)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError, IndexError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise FormatError(f"{path}: the .npy header is invalid: {reason}") from None
    checked = check_dtype(dtype, where=path)
    return NpyHeader(check_shape(shape, where=path, itemsize=checked.itemsize), checked, fortran, offset)


def write_header(shape: tuple[int, ...], dtype: np.dtype[Any], *, fortran: bool, length: int = 0) -> bytes:
    """Header of a .npy file, version 1.0, padded with spaces to `length` if that is longer."""
    stream = BytesIO()
    description = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
    npy_format.write_array_header_1_0(stream, description)
    header = stream.getvalue()
    if len(header) >= length:
        return header
    text = header[10:-1].ljust(length - 11) + b"\n"
    return header[:8] + struct.pack("<H", len(text)) + text


def header_of(schema: Schema, shape: tuple[int, ...], length: int = 0) -> bytes:
    """The header of an array with a schema, or of a block of it with another shape."""
    fortran = schema.ndim > 1 and schema.order == tuple(reversed(range(schema.ndim)))
    return write_header(shape, schema.dtype, fortran=fortran, length=length)


def adapt_order(schema: Schema, asked: Collection[str], what: str, instead: str) -> tuple[tuple[int, ...], list[str]]:
    """The order of the axes in .npy files, and a note if it is not the schema's.

    UsageError if the user requested that order: `what` can only have C or Fortran order; `instead` can have any.
    """
    straight = tuple(range(schema.ndim))
    if schema.order in (straight, straight[::-1]):
        return schema.order, []
    if "order" in asked:
        raise UsageError(f"{what} only C or Fortran order, not axes {list(schema.order)}; try {instead}")
    return straight, [f"axes are in C order, not {list(schema.order)}: {what} only C or Fortran order"]
