"""What stores have in common whose bytes the engine moves itself: a base for adapters, here and elsewhere."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, UsageError
from reblock.geometry import Box
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Scratch, Way, fresh
from reblock.storage.media.local import LOCAL


class ByExtent:
    """A store that names extents and has no library of its own to ask; nothing is kept open."""

    roots: Roots | None = None
    """Where the files of its extents may lie; None = anywhere."""
    medium: Medium = LOCAL
    """Where its bytes live."""

    @property
    def reads(self) -> Way:
        return Way.EXTENT

    @property
    def writes(self) -> Way:
        return Way.EXTENT

    @property
    def encoding(self) -> str:
        """Raw."""
        return ""

    @property
    def decoder(self) -> Decoder | None:
        """None."""
        return None

    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:  # noqa: ARG002 - never called
        """Not needed: the engine reads extents."""
        _not_needed()

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:  # noqa: ARG002 - never called
        """Not needed: the engine writes extents."""
        _not_needed()

    def write_unit(self, index: Index, data: Bytes) -> None:  # noqa: ARG002 - never called
        """Not needed: the engine writes extents."""
        _not_needed()

    def abort(self) -> None:
        """Nothing is kept open."""


class RawByExtent(ByExtent):
    """The same for objects whose bytes are their elements."""

    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:  # noqa: ARG002
        """Copy, once the size is right."""
        if len(data) != out.size:
            raise CorruptError(f"{extent.path}: {len(data):,} bytes at {extent.offset}, expected {out.size:,}")
        out[:] = np.frombuffer(data, np.uint8)

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:  # noqa: ARG002
        """The bytes as they are."""
        return data


def _not_needed() -> NoReturn:
    raise UsageError("this store is read and written by extents only")
