"""reblock itself, through its public function."""

from __future__ import annotations

import os
from typing import Any

import h5py
import numcodecs.blosc

from reblock.api.blocks import merge, split
from reblock.api.running import repartition
from reblock.bench.peers.scripts.job import AXES, DATASET, PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.storage import registry
from reblock.storage.hdf5.sandbox import switchboard
from reblock.strategies import strategies

#: Modules that reblock loads lazily in its first run; loaded here before the clock starts, as for the other contenders.
LOADED = (h5py, numcodecs.blosc, *map(registry.get, registry.file_formats()), strategies())


def run(job: PeerJob) -> dict[str, Any]:
    """Plan and run."""
    how: dict[str, Any] = {"memory": job.memory_bytes, "scratch": job.scratch}
    if job.source_format in ("hdf5", "netcdf"):
        # The process that loads HDF5 for us; others have loaded it, too. Its memory counts.
        switchboard.start()
    if job.target_format == "niblocks":
        pattern = "b_{0}_{1}_{2}.nii"
        return measure(
            lambda: split(job.source, job.target, chunks=job.chunks, block_format="nii", pattern=pattern, **how)
        )
    if job.source_format == "niblocks":
        # As if other programs had made the blocks: there is no manifest.
        return measure(lambda: merge(job.source, job.target, **how))
    if job.source_format == "netcdf":
        chunks = ",".join(f"{name}={length}" for name, length in zip(AXES, job.chunks, strict=True))
        return measure(
            lambda: repartition(job.source, job.target, chunks=chunks, codec=_codec(job.target_codec), **how)
        )
    if job.source_format == "tiffs":
        planes = os.path.join(job.source, "*.tif")
        how |= {"stack": "z", "chunks": job.chunks, "codec": _codec(job.target_codec)}
        return measure(lambda: repartition(planes, job.target, **how))
    inner = f"::/{DATASET}" if job.source_format == "hdf5" else ""
    return measure(
        lambda: repartition(
            job.source + inner,
            job.target + inner,
            chunks=job.chunks,
            shards=job.shards,
            memory=job.memory_bytes,
            scratch=job.scratch,
        )
    )


def _codec(name: str) -> str | None:
    """The option for a codec; codecs of HDF5 are kept without one."""
    return f"{name}:shuffle" if name.startswith("blosc") else None if name.startswith("shuffle") else name
