"""xarray with dask, in the usual way: a dataset is opened in pieces, rechunked and written to Zarr in one graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import dask
import netCDF4
import numpy as np
import xarray
import zarr
from zarr.codecs import BloscCodec

from reblock.bench.peers.scripts.job import AXES, PeerJob
from reblock.bench.peers.scripts.measure import measure

#: Bytes of the pieces in which variables are read; smaller ones cost time in the scheduler.
PIECE_BYTES = 8 << 20


def run(job: PeerJob) -> dict[str, Any]:
    """Copy the dataset; dask has no budget, so all of it may be in memory."""
    zarr.config.set({"threading.max_workers": job.threads, "array.write_empty_chunks": True})
    with dask.config.set(scheduler="threads", num_workers=job.threads):
        return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Rechunk all variables."""
    rows = max(1, PIECE_BYTES // job.bytes_of(job.shape[1:]) // job.source_chunks[0]) * job.source_chunks[0]
    codec: tuple[BloscCodec, ...] = ()
    if job.target_codec != "none":
        codec = (BloscCodec(cname="zstd", clevel=3, shuffle="shuffle", typesize=job.itemsize),)
    options = {"compressors": codec, "chunks": job.chunks}
    with xarray.open_dataset(job.source, engine="h5netcdf", chunks={AXES[0]: rows}) as dataset:
        new = dataset.chunk(dict(zip(AXES, job.chunks, strict=True)))
        new.to_zarr(job.target, encoding=dict.fromkeys(job.names, options), consolidated=False)


def make(job: PeerJob, slabs: Callable[[PeerJob], Iterator[tuple[slice, Any]]]) -> None:
    """A NetCDF file with variables that share their axes, and coordinates."""
    with netCDF4.Dataset(job.target, "w") as file:
        file.title = "smooth fields with noise"
        for name, length in zip(AXES, job.shape, strict=True):
            file.createDimension(name, length)
            file.createVariable(name, "f8", (name,))[:] = np.arange(length)
        for number, name in enumerate(job.names):
            how: dict[str, Any] = {"compression": "zlib", "complevel": 4, "shuffle": True}
            variable = file.createVariable(name, job.dtype, AXES, chunksizes=job.source_chunks, fill_value=False, **how)
            variable.units = "K"
            for planes, values in slabs(replace(job, seed=number)):
                variable[planes] = values
