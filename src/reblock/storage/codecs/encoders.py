"""Encoders of a zarr chunk's stages, each on memory that is given to it where its library allows that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.model.codec import Stage
from reblock.model.store import Flat, Scratch
from reblock.storage.codecs import in_place
from reblock.storage.codecs.checksums import SUM_BYTES, at_start, checksum
from reblock.storage.codecs.in_place import append
from reblock.storage.codecs.shuffle import shuffle
from reblock.storage.codecs.stages import CHECKSUMS, config, numcodec
from reblock.storage.codecs.zlib_streams import Container, compress


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes to encode."""

    data: Flat
    """What there is."""
    room: Flat | None
    """Memory for the result: that of the unit, in which the data lies, or which is free by now."""
    scratch: Scratch
    """Other memory."""
    stage: Stage
    """Which codec."""
    dtype: np.dtype[Any]
    """Type of the array's elements."""

    def numcode(self) -> Flat:
        """What numcodecs makes of it."""
        return np.frombuffer(numcodec(self.stage, self.dtype).encode(self.data), np.uint8)


def _gzip(work: Work) -> Flat:
    return compress(work.data, work.stage.get("level"), Container.GZIP, work.room, work.scratch)


def _zlib(work: Work) -> Flat:
    return compress(work.data, work.stage.get("level"), Container.ZLIB, work.room, work.scratch)


def _zstd(work: Work) -> Flat:
    level, checksum = work.stage.get("level"), bool(work.stage.get("checksum"))
    found = in_place.zstd(work.data, work.room, work.scratch, level, checksum=checksum)
    return work.numcode() if found is None else found


def _blosc(work: Work) -> Flat:
    settings = config(work.stage, work.dtype)
    named = in_place.Blosc(**{name: settings[name] for name in in_place.Blosc._fields})
    found = in_place.blosc(work.data, work.room, work.scratch, named)
    return work.numcode() if found is None else found


def _shuffle(work: Work) -> Flat:
    size = work.data.size
    return shuffle(work.data, work.stage.get("elementsize", work.dtype.itemsize), work.scratch("planes", size)[:size])


def _checksum(work: Work) -> Flat:
    added = np.frombuffer(checksum(work.stage, work.data).to_bytes(SUM_BYTES, "little"), np.uint8)
    return np.concatenate([added, work.data]) if at_start(work.stage) else append(work.data, added, work.room)


#: By the name of the stage.
ENCODERS: dict[str, Callable[[Work], Flat]] = {
    **dict.fromkeys(("lz4", "bz2", "lzma", "base64"), Work.numcode),
    **dict.fromkeys(CHECKSUMS, _checksum),
    "blosc": _blosc,
    "zstd": _zstd,
    "gzip": _gzip,
    "zlib": _zlib,
    "shuffle": _shuffle,
}
