"""The workloads of `reblock bench peers`, each with its memory budget and the bar that reblock must meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.render.tables import shape as lengths_text
from reblock.units import format_size

Lengths = tuple[int, ...]

#: Minimum of a scaled budget: bytes, and multiples of the largest chunk.
MIN_MEMORY_BYTES, MIN_CHUNKS = 1 << 20, 12
#: Multiple of the physical limit within which a bar is met, however fast the references are.
LIMIT_FACTOR = 1.15


@dataclass(frozen=True)
class Bar:
    """Limits on reblock's time and on the size of its output."""

    factor: float
    """Limit of its time, as a multiple of the fastest reference's."""
    references: tuple[str, ...]
    """Contenders that its time is compared with."""
    size_factor: float | None = None
    """Limit of its output's size, as a multiple of the size reference's; None for no limit."""
    size_reference: str | None = None
    """Contender that its output's size is compared with."""
    limit_factor: float | None = None
    """Limit of its time as a multiple of the physical limit's, which also meets the bar; None if there is none."""

    def __str__(self) -> str:
        who = self.references[0] if len(self.references) == 1 else f"the best of {', '.join(self.references)}"
        size = f", output at most {self.size_factor:g} × {self.size_reference}'s" if self.size_factor else ""
        limit = f", or {self.limit_factor:g} × the physical limit" if self.limit_factor else ""
        return f"reblock in at most {self.factor:g} × the time of {who}{limit}{size}"


@dataclass(frozen=True)
class Workload:
    """A copy of an array into other chunks."""

    name: str
    """Short name."""
    shape: Lengths
    """Lengths of the array."""
    dtype: str
    """Element type."""
    source_format: str
    """zarr, npy, hdf5, netcdf, nifti, or a folder of files: niblocks (NIfTI blocks) or tiffs (one for each plane)."""
    source_chunks: Lengths
    """Chunks of the source; rows for a contiguous source."""
    target_format: str
    """zarr, zarrgroup (a dataset), hdf5, netcdf, nifti or niblocks."""
    chunks: Lengths
    """Chunks of the target."""
    memory_bytes: int
    """Memory budget of a contender."""
    bar: Bar
    """Bar that reblock must meet."""
    codec: str = "none"
    """Codec of source and target."""
    target_codec: str | None = None
    """Codec of the target, if it has another."""
    variables: int = 1
    """Number of arrays of this shape; NetCDF files also have the coordinates of their axes."""
    chunks_per_shard: Lengths | None = None
    """Number of chunks per shard along each axis; None for a target without shards."""

    @property
    def shards(self) -> Lengths | None:
        if self.chunks_per_shard is None:
            return None
        return tuple(chunk * number for chunk, number in zip(self.chunks, self.chunks_per_shard, strict=True))

    @property
    def nbytes(self) -> int:
        """Decoded bytes of the arrays."""
        return self.variables * prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def title(self) -> str:
        """One line that describes it."""
        before = "" if self.source_format in ("npy", "nifti", "tiffs") else f" {lengths_text(self.source_chunks)}"
        shards = f" in shards of {lengths_text(self.shards)}" if self.shards else ""
        codec = "" if self.codec == "none" else f", {self.codec}"
        after = f", {self.target_codec}" if self.target_codec else ""
        number = f"{self.variables} × " if self.variables > 1 else ""
        return (
            f"{self.name}: {number}{lengths_text(self.shape)} {self.dtype}{codec}, {self.source_format}{before} → "
            f"{self.target_format} {lengths_text(self.chunks)}{shards}{after}, {format_size(self.nbytes)} with "
            f"{format_size(self.memory_bytes)} of memory"
        )

    def scaled(self, scale: int) -> Workload:
        """Divide lengths by `scale`, the memory by its power, and chunk lengths by its square root only."""
        if scale < 1:
            raise UsageError(f"a scale is at least 1, not {scale}")
        shape = tuple(max(1, length // scale) for length in self.shape)
        before, after = (
            tuple(min(whole, max(1, int(length / scale**0.5))) for length, whole in zip(chunks, shape, strict=True))
            for chunks in (self.source_chunks, self.chunks)
        )
        shards = self.chunks_per_shard and tuple(
            min(number, -(-whole // chunk))
            for number, whole, chunk in zip(self.chunks_per_shard, shape, after, strict=True)
        )
        small = replace(self, shape=shape, source_chunks=before, chunks=after, chunks_per_shard=shards)
        largest = max(prod(small.source_chunks), prod(small.shards or small.chunks)) * np.dtype(self.dtype).itemsize
        least = min(self.memory_bytes, max(MIN_MEMORY_BYTES, MIN_CHUNKS * largest))
        return replace(small, memory_bytes=max(least, self.memory_bytes // scale ** len(shape)))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "shape": self.shape,
            "dtype": self.dtype,
            "codec": self.codec,
            "target_codec": self.target_codec or self.codec,
            "variables": self.variables,
            "source_format": self.source_format,
            "source_chunks": self.source_chunks,
            "target_format": self.target_format,
            "chunks": self.chunks,
            "shards": self.shards,
            "memory_bytes": self.memory_bytes,
            "bar": str(self.bar),
        }


_SLICES = Workload(
    "W2",
    (2048, 512, 512),
    "<f4",
    "zarr",
    (1, 512, 512),
    "zarr",
    (2048, 32, 32),
    512 << 20,
    Bar(0.6, ("cp",)),
)
_SMALL = Workload(
    "W6",
    (512, 512, 512),
    "<u2",
    "zarr",
    (32, 32, 32),
    "zarr",
    (64, 16, 128),
    128 << 20,
    Bar(0.6, ("tensorstore", "zarrs")),
)

_SPLIT = Workload(
    "nifti-split",
    (1024, 512, 512),
    "<f4",
    "nifti",
    (1024, 512, 1),
    "niblocks",
    (64, 64, 64),
    512 << 20,
    Bar(0.5, ("nibabel",), limit_factor=LIMIT_FACTOR),
)

_DATASET = Workload(
    "netcdf-zarr",
    (1024, 128, 256),
    "<f4",
    "netcdf",
    (4, 128, 256),
    "zarrgroup",
    (1024, 32, 32),
    512 << 20,
    Bar(0.5, ("xarray",), limit_factor=LIMIT_FACTOR),
    codec="shuffle+gzip:4",
    target_codec="blosc:zstd:3",
    variables=8,
)

_STACK = Workload(
    "tiff-zarr",
    (512, 1024, 1024),
    "<u2",
    "tiffs",
    (1, 1024, 1024),
    "zarr",
    (64, 128, 128),
    512 << 20,
    Bar(0.5, ("tifffile",), limit_factor=LIMIT_FACTOR),
)

#: All workloads, in the order in which they run.
WORKLOADS = (
    Workload("W1", (840,) * 3, "<f4", "zarr", (84,) * 3, "zarr", (120,) * 3, 1 << 30, Bar(0.6, ("cp",))),
    _SLICES,
    replace(_SLICES, name="W3", codec="blosc:zstd:3", bar=Bar(0.5, ("zarrs", "tensorstore", "zarr-python"))),
    Workload(
        "W4",
        (1024, 256, 512),
        "<f4",
        "hdf5",
        (4, 256, 512),
        "hdf5",
        (1024, 16, 32),
        512 << 20,
        Bar(0.33, ("h5py", "nccopy", "h5repack"), 1.05, "h5py"),
        codec="shuffle+gzip:4",
    ),
    Workload("W5", (32768, 8192), "<f8", "npy", (1, 8192), "zarr", (1024, 128), 512 << 20, Bar(0.8, ("cp",))),
    _SMALL,
    replace(_SMALL, name="W6-shards", chunks_per_shard=(4, 16, 2)),
    _SPLIT,
    replace(
        _SPLIT,
        name="nifti-merge",
        source_format=_SPLIT.target_format,
        source_chunks=_SPLIT.chunks,
        target_format=_SPLIT.source_format,
        chunks=_SPLIT.source_chunks,
    ),
    _DATASET,
    replace(
        _DATASET,
        name="netcdf-plain",
        target_codec="none",
        bar=Bar(0.5, ("xarray", "nccopy"), limit_factor=LIMIT_FACTOR),
    ),
    replace(
        _DATASET,
        name="netcdf-nccopy",
        target_format="netcdf",
        target_codec=None,
        bar=Bar(0.5, ("nccopy",), limit_factor=LIMIT_FACTOR),
    ),
    _STACK,
    replace(_STACK, name="tiff-blosc", target_codec="blosc:zstd:3"),
)


def find_workloads(names: Sequence[str]) -> tuple[Workload, ...]:
    """Find workloads by name, in the order of WORKLOADS; all without names."""
    known = {workload.name.lower(): workload for workload in WORKLOADS}
    wanted = {name.lower() for name in names}
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"there is no workload {name!r}: choose among {', '.join(one.name for one in WORKLOADS)}")
    return tuple(workload for name, workload in known.items() if not wanted or name in wanted)
