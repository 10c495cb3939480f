"""The Blosc frame of a chunk: its header, and the rule that it must meet before it is decoded.

::

    header, 16 bytes │ start of block 0 │ start of block 1 │ … │ block 1 │ block 0 │ …
"""

from __future__ import annotations

import struct
from typing import NamedTuple

#: Format version, version of the inner codec, flags, bytes of an element, of all elements, of a block, of the frame.
_HEADER = struct.Struct("<BBBBIII")
#: Bytes of a header.
HEADER_BYTES = _HEADER.size
_VERSION = 2


class BloscHeader(NamedTuple):
    """The header of a frame."""

    inner: int
    """Version of the inner codec's format."""
    flags: int
    """Shuffle, inner codec, and whether the blocks are stored uncompressed."""
    width: int
    """Bytes of an element."""
    nbytes: int
    """Bytes of the chunk, decoded."""
    block_bytes: int
    """Bytes of a block, decoded; the last one may have fewer."""
    stored_bytes: int
    """Bytes of the frame, including this header."""

    @property
    def is_raw(self) -> bool:
        """Whether the blocks are stored uncompressed."""
        return bool(self.flags & 2)

    def pack(self) -> bytes:
        """The stored bytes of the header."""
        return _HEADER.pack(_VERSION, *self)


def read_header(data: bytes, stored_bytes: int | None) -> BloscHeader:
    """The header at the start of stored bytes; `stored_bytes` is the size of the frame, if that is known.

    The library trusts a header, and a false one crashes the process: ValueError if it must not be decoded. The caller
    compares the decoded size with the size of the memory. The same rule in C: `header_holds` in engine/native/blosc.c.
    """
    if len(data) < HEADER_BYTES:
        raise ValueError(f"a header of {HEADER_BYTES} bytes expected, {len(data)} bytes stored")
    version, *fields = _HEADER.unpack(data[:HEADER_BYTES])
    header = BloscHeader(*fields)
    if version != _VERSION or header.width < 1:
        raise ValueError(f"version {version} and type size {header.width} where 2 and at least 1 are expected")
    if stored_bytes is not None and header.stored_bytes != stored_bytes:
        raise ValueError(f"the header says {header.stored_bytes:,} stored bytes, there are {stored_bytes:,}")
    if not 1 <= header.block_bytes <= header.nbytes:
        raise ValueError(f"blocks of {header.block_bytes:,} bytes in {header.nbytes:,}")
    return header
