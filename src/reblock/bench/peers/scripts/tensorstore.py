"""tensorstore: a loop over regions; each is read in pieces and written in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorstore

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import Slices, pieces, regions
from reblock.bench.peers.scripts.rows import RowSource

#: Number of files that may be read or written at once.
FILES = 32


def run(job: PeerJob) -> dict[str, Any]:
    """Copy region by region."""
    return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Copy; a region gets half of the memory, and reads are cut into pieces because all chunks of a read are held."""
    context = tensorstore.Context(
        {
            "data_copy_concurrency": {"limit": job.threads},
            "file_io_concurrency": {"limit": FILES},
            # One sync at the end, inside the measured time.
            "file_io_sync": False,
        }
    )
    target = tensorstore.open(_target(job), context=context, create=True).result()
    read = _reader(job, context)
    for region in regions(job, job.memory_bytes // 2):
        target[region].write(read(region), can_reference_source_data_indefinitely=True).result()


def _reader(job: PeerJob, context: Any) -> Callable[[Slices], npt.NDArray[Any]]:
    """A function that reads a region into memory."""
    if job.source_format == "npy":
        return RowSource(job.source).__getitem__
    source = tensorstore.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": job.source}}, context=context, open=True
    ).result()

    def read(region: Slices) -> npt.NDArray[Any]:
        buffer = np.empty([side.stop - side.start for side in region], job.dtype)
        origin = tensorstore.array(buffer, context=context)[
            tensorstore.d[:].translate_to[[side.start for side in region]]
        ]
        for piece in pieces(job, region, job.memory_bytes // 4):
            origin[piece].write(source[piece]).result()
        return buffer

    return read


def _target(job: PeerJob) -> dict[str, Any]:
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if job.codec != "none":
        blosc = {"cname": "zstd", "clevel": 3, "shuffle": "shuffle", "typesize": job.itemsize, "blocksize": 0}
        codecs.append({"name": "blosc", "configuration": blosc})
    if job.shards:
        checked = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        inner = {"chunk_shape": list(job.chunks), "codecs": codecs, "index_codecs": checked, "index_location": "end"}
        codecs = [{"name": "sharding_indexed", "configuration": inner}]
    return {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": job.target},
        "metadata": {
            "shape": list(job.shape),
            "data_type": np.dtype(job.dtype).name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(job.unit)}},
            "codecs": codecs,
            "fill_value": 0,
        },
        "store_data_equal_to_fill_value": True,
    }
