"""Base classes for stores whose bytes the engine moves, for our adapters and those of other authors."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, UsageError
from reblock.geometry import Box
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Scratch, TransferMode, fresh
from reblock.storage.media.local import LOCAL


class ByExtent:
    """A store that names extents and needs no library; it keeps nothing open."""

    roots: Roots | None = None
    """The folders in which its files may be; None = anywhere."""
    medium: Medium = LOCAL
    """The medium of its bytes."""

    @property
    def reads(self) -> TransferMode:
        return TransferMode.EXTENT

    @property
    def writes(self) -> TransferMode:
        return TransferMode.EXTENT

    @property
    def encoding(self) -> str:
        """Bytes are not encoded."""
        return ""

    @property
    def decoder(self) -> Decoder | None:
        """No compiled decoder."""
        return None

    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:  # noqa: ARG002 - never called
        """Unused: the engine reads extents."""
        _not_needed()

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:  # noqa: ARG002 - never called
        """Not needed: the engine writes extents."""
        _not_needed()

    def write_unit(self, index: Index, data: Bytes) -> None:  # noqa: ARG002 - never called
        """Not needed: the engine writes extents."""
        _not_needed()

    def abort(self) -> None:
        """Nothing to close."""


class RawByExtent(ByExtent):
    """The same for one array in a file or folder, whose bytes are its elements."""

    path: str
    """The file or folder."""

    @property
    def location(self) -> str:
        return self.path

    @property
    def fills(self) -> bool:
        """A missing object is an error."""
        return False

    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:  # noqa: ARG002
        """Copy the bytes, if the size is right."""
        if len(data) != out.size:
            raise CorruptError(f"{extent.path}: {len(data):,} bytes at {extent.offset}, expected {out.size:,}")
        out[:] = np.frombuffer(data, np.uint8)

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:  # noqa: ARG002
        """Return the bytes unchanged."""
        return data


def _not_needed() -> NoReturn:
    raise UsageError("this store is read and written by extents only")
