"""tensorstore: a loop over regions, each read piece by piece and written at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorstore

from reblock.bench.peers.scripts.job import Job
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import Region, pieces, regions
from reblock.bench.peers.scripts.rows import Rows

#: Files that may be read or written at once.
FILES = 32


def run(job: Job) -> dict[str, Any]:
    """Copy region by region."""
    return measure(lambda: copy(job))


def copy(job: Job) -> None:
    """Half of the memory is the region's; chunks that are asked for together are held together, so reads are cut."""
    context = tensorstore.Context(
        {
            "data_copy_concurrency": {"limit": job.threads},
            "file_io_concurrency": {"limit": FILES},
            # All is synced once at the end, which is part of the time.
            "file_io_sync": False,
        }
    )
    target = tensorstore.open(_target(job), context=context, create=True).result()
    read = _reader(job, context)
    for region in regions(job, job.memory_bytes // 2):
        target[region].write(read(region), can_reference_source_data_indefinitely=True).result()


def _reader(job: Job, context: Any) -> Callable[[Region], npt.NDArray[Any]]:
    """What gives a region in memory."""
    if job.source_format == "npy":
        return Rows(job.source).__getitem__
    source = tensorstore.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": job.source}}, context=context, open=True
    ).result()

    def read(region: Region) -> npt.NDArray[Any]:
        buffer = np.empty([side.stop - side.start for side in region], job.dtype)
        origin = tensorstore.array(buffer, context=context)[
            tensorstore.d[:].translate_to[[side.start for side in region]]
        ]
        for piece in pieces(job, region, job.memory_bytes // 4):
            origin[piece].write(source[piece]).result()
        return buffer

    return read


def _target(job: Job) -> dict[str, Any]:
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
