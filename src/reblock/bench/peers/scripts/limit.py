"""The physical limit of a copy: the time of its codecs on these cores, or that of the device, whichever is longer.

First, one variable or one layer of planes is decoded, and its target chunks are encoded, in memory and on all threads.
That time is scaled up to the whole; volumes have no codecs. Then all bytes of the source are read, and files with the
number and sizes of the target's are written, without codecs. No copy can be faster, unless its codecs are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from math import prod
from threading import local
from time import perf_counter
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from reblock.bench.files import evict_array
from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.nibabel import BLOCKS
from reblock.bench.peers.scripts.tifffile import Planes
from reblock.engine import native
from reblock.model.codec import Codec
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.zlib_streams import Container, decompress

#: The most bytes that are read from the device, or written to it, at once.
PIECE_BYTES = 4 << 20
#: Formats of volumes, which are stored raw.
VOLUMES = ("nifti", BLOCKS)


def run(job: PeerJob) -> dict[str, Any]:
    """Measure both; the limit is the longer time."""
    with ThreadPoolExecutor(job.threads) as pool:
        decoding, encoding, sizes = (0.0, 0.0, _volume_sizes(job)) if job.source_format in VOLUMES else _code(job, pool)
        evict_array(job.source)
        device = _timed(lambda: _move(job, sizes, pool))
    codecs = decoding + encoding
    note = f"codecs {codecs:.2f} s ({decoding:.2f} s decode), device {device:.2f} s"
    return {"seconds": max(codecs, device), "size_bytes": sum(sizes), "note": note}


def _volume_sizes(job: PeerJob) -> list[int]:
    """Sizes of the files of a volume: a file for each block, or one for all."""
    if job.target_format != BLOCKS:
        return [job.nbytes]
    return [job.bytes_of(job.chunks)] * prod(
        -(-whole // step) for whole, step in zip(job.shape, job.chunks, strict=True)
    )


def _code(job: PeerJob, pool: ThreadPoolExecutor) -> tuple[float, float, list[int]]:
    """Seconds to decode the source and to encode the target, and the sizes of the target's files."""
    decoding, sample = _decode(job, pool)
    encoding, stored = _encode(job, sample, pool)
    parts = job.nbytes * job.variables / sample.nbytes
    return decoding * parts, encoding * parts, stored * round(parts)


def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def _decode(job: PeerJob, pool: ThreadPoolExecutor) -> tuple[float, npt.NDArray[Any]]:
    """Seconds to decode a part of the source, and its elements."""
    if job.source_format == "tiffs":
        # Planes are stored raw.
        return 0.0, Planes(job.source, job.threads)[: job.chunks[0]]
    out = np.empty(job.shape, job.dtype)
    with h5py.File(job.source, "r") as file:
        dataset = file[job.names[0]].id
        places = [dataset.get_chunk_info(number).chunk_offset for number in range(dataset.get_num_chunks())]
        units = [dataset.read_direct_chunk(place)[1] for place in places]
    size = job.bytes_of(job.source_chunks)
    # Memory that is touched already: a copy uses the same memory many times.
    decoded = [np.ones(size, np.uint8) for _ in units]
    decode = _decoder(job, size)
    seconds = _timed(lambda: list(pool.map(decode, units, decoded)))
    for place, unit in zip(places, decoded, strict=True):
        box = tuple(slice(start, start + length) for start, length in zip(place, job.source_chunks, strict=True))
        here = out[box]
        here[...] = unit.view(job.dtype).reshape(job.source_chunks)[tuple(map(slice, here.shape))]
    return seconds, out


def _decoder(job: PeerJob, size: int) -> Callable[[bytes, npt.NDArray[np.uint8]], None]:
    """Decodes units of `size` bytes as the engine does."""
    if job.codec.partition(":")[0] != "shuffle+gzip" or native.library() is None:
        # HDF5 says gzip for streams of zlib.
        return Chain(Codec.parse(job.codec.replace("gzip", "zlib")), np.dtype(job.dtype)).decode
    own = local()

    def decode(unit: bytes, out: npt.NDArray[np.uint8]) -> None:
        planes = vars(own).setdefault("planes", np.ones(size, np.uint8))
        if not decompress(np.frombuffer(unit, np.uint8), planes, Container.ZLIB):
            raise ValueError(f"a chunk of {job.source} does not inflate")
        native.regroup(planes, job.itemsize, out)

    return decode


def _encode(job: PeerJob, sample: npt.NDArray[Any], pool: ThreadPoolExecutor) -> tuple[float, list[int]]:
    """Seconds to encode the target chunks of a part, and their stored sizes."""
    text = f"{job.target_codec}:shuffle" if job.target_codec.startswith("blosc") else job.target_codec
    chain = Chain(Codec.parse(text.replace("gzip", "zlib")), sample.dtype)
    corners = product(*(range(0, whole, step) for whole, step in zip(sample.shape, job.chunks, strict=True)))
    units = [_unit(sample, corner, job.chunks) for corner in corners]
    if not chain:
        return 0.0, [unit.size for unit in units]
    sizes: list[int] = []
    seconds = _timed(lambda: sizes.extend(pool.map(lambda unit: chain.encode(unit).size, units)))
    return seconds, sizes


def _unit(array: npt.NDArray[Any], corner: Iterable[int], lengths: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The bytes of a chunk; it is padded at the end of an axis."""
    piece = array[tuple(slice(start, start + length) for start, length in zip(corner, lengths, strict=True))]
    pads = [(0, length - there) for length, there in zip(lengths, piece.shape, strict=True)]
    return np.pad(piece, pads).reshape(-1).view(np.uint8)


def _move(job: PeerJob, sizes: list[int], pool: ThreadPoolExecutor) -> None:
    """Read all bytes of the source and write files of these sizes, in turns; then sync."""
    files = [os.path.join(base, name) for base, _, names in os.walk(job.source) for name in names] or [job.source]
    reads = [piece for file in files for piece in _pieces(file, os.path.getsize(file))]
    os.makedirs(job.target)
    writes = [
        piece for number, size in enumerate(sizes) for piece in _pieces(os.path.join(job.target, str(number)), size)
    ]
    noise = np.random.default_rng(0).bytes(max(length for _, _, length in writes))
    steps = max(len(reads), len(writes))

    def step(number: int) -> None:
        for which in range(number * len(reads) // steps, (number + 1) * len(reads) // steps):
            path, start, length = reads[which]
            with open(path, "rb", buffering=0) as file:
                file.seek(start)
                file.read(length)
        for which in range(number * len(writes) // steps, (number + 1) * len(writes) // steps):
            path, start, length = writes[which]
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            os.pwrite(handle, memoryview(noise)[:length], start)
            os.close(handle)

    list(pool.map(step, range(steps)))
    os.sync()


def _pieces(path: str, size: int) -> list[tuple[str, int, int]]:
    """The parts of a file that are read or written at once: path, start and length."""
    return [(path, start, min(PIECE_BYTES, size - start)) for start in range(0, size, PIECE_BYTES)]
