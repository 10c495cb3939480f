"""What codecs take is what is counted for them, by processes of their own, on what compresses and what does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import reblock
from reblock.model.codec import Codec
from reblock.model.layout import Coding, most_stored_bytes
from reblock.storage.codecs.coding import LARGE_BYTES, coding, shard_coding
from reblock.storage.codecs.in_place import STEP_BYTES

SCRIPT = """
import json, sys
import numpy as np
from reblock.engine.memory.arena import Arena
from reblock.engine.memory.scratch import ScratchPool
from reblock.model.codec import Codec
from reblock.storage.codecs.coding import coding
from reblock.storage.codecs.chain import Chain
text, dtype, size = sys.argv[1], np.dtype(sys.argv[2]), int(sys.argv[3])
chain, rng = Chain(Codec.parse(text), dtype), np.random.default_rng(0)
counted = coding(chain.codec, dtype, size)
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
def taken(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    work()
    return status("VmHWM") - before
def encode(data, room):
    with ScratchPool(1, Arena())() as scratch:
        chain.encode(data, room if counted.in_place else None, scratch)
def decode(stored, out):
    with ScratchPool(1, Arena())() as scratch:
        chain.decode(stored.data, out, scratch)
small = np.arange(4096, dtype="u1").astype(dtype).view("u1")
chain.decode(chain.encode(small).data, np.empty_like(small))
found = {"counted": [counted.encoding_bytes, counted.decoding_bytes], "encoding": [], "decoding": []}
for fill in ("noise", "mixed", "zeros"):
    data = np.zeros(size // dtype.itemsize, dtype)
    many = {"noise": data.size, "mixed": data.size // 2, "zeros": 0}[fill]
    if dtype.kind == "f":
        data[:many] = rng.standard_normal(many)
    else:
        data[:many] = rng.integers(0, np.iinfo(dtype).max, many, dtype)
    data = data.view("u1")
    stored = chain.encode(data).copy()
    out = np.ones_like(data)
    found["decoding"].append(taken(lambda: decode(stored, out)))
    room = np.ones(size + size // 128, "u1")
    room[:size] = data
    del data
    found["encoding"].append(taken(lambda: encode(room[:size], room)))
print(json.dumps(found))
"""
FEW_BYTES = 3 << 20
DELTA = '[{"id": "delta", "dtype": "<f4"}, {"id": "zstd", "level": 1}]'
CODECS = [
    ("zstd:1", "<f4"),
    ("zstd:9", "<f4"),
    ("blosc:lz4:1", "<f8"),
    ("blosc:zstd:3", "<u2"),
    ("blosc:zstd:9", "<f4"),
    ("gzip:1", "<f4"),
    ("shuffle+gzip:4", "<f4"),
    ("shuffle+zstd:3+crc32c", "<f8"),
    ("blosc:lz4:1+crc32c", "<f4"),
    ("lz4", "<u2"),
    ("bz2:1", "u1"),
    ("crc32c", "<f4"),
    ("shuffle", "<f4"),
    ('[{"id": "delta", "dtype": "<i4"}, {"id": "zstd", "level": 1}]', "<i4"),
    ('[{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f4", "astype": "<i2"}]', "<f4"),
    ('{"id": "lzma", "preset": 1}', "u1"),
]
#: Slow ones, and the same at every size; in large among the faults.
SLOW = ("bz2", '{"id": "lzma', "blosc:zstd:9", "zstd:9")
SIZED_CODECS = [
    pytest.param(
        *(text, dtype, size),
        id=f"{text.strip('[')[:24]}-{size >> 20}MiB",
        marks=[pytest.mark.faults] if size > LARGE_BYTES and text.startswith(SLOW) else [],
    )
    for size in (6 << 20, 24 << 20)
    for text, dtype in CODECS
]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel does not reset the peak here")
@pytest.mark.parametrize(("text", "dtype", "size"), SIZED_CODECS)
def test_a_codec_takes_what_is_counted(text: str, dtype: str, size: int) -> None:
    words = [sys.executable, "-c", SCRIPT, text, dtype, str(size)]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    for kind, counted in zip(("encoding", "decoding"), found["counted"], strict=True):
        assert max(found[kind]) <= counted + FEW_BYTES, (kind, found)


def test_large_units_are_encoded_in_place() -> None:
    f4 = np.dtype("<f4")
    for text in ("zstd:3", "blosc:zstd:3", "gzip:4", "shuffle+gzip:4", "shuffle+zlib:4+fletcher32", "zstd:1+crc32c"):
        small, large = (coding(Codec.parse(text), f4, size) for size in (LARGE_BYTES - 4, LARGE_BYTES))
        assert small is not None
        assert large is not None
        assert (small.in_place, large.in_place) == (False, True)
        assert small.encoding_bytes >= most_stored_bytes(LARGE_BYTES - 4)
        assert large.encoding_bytes < small.encoding_bytes
    for text in ("lz4", "shuffle", "blosc:zstd:0", "crc32c+zstd:1", DELTA):
        found = coding(Codec.parse(text), f4, LARGE_BYTES)
        assert found is not None
        assert not found.in_place
    assert coding(Codec(), f4, LARGE_BYTES) is None


@pytest.mark.parametrize(
    ("text", "unit", "in_place"),
    [
        ("zstd:3", 16 << 10, True),
        ("shuffle+gzip:4+crc32c", 1 << 20, True),
        ("zstd:3", 4096, False),
        ("lz4", 1 << 20, False),
    ],
)
def test_so_are_shards_of_units_that_are_not_small(text: str, unit: int, in_place: bool) -> None:
    codec = Codec.parse(text)
    one = coding(codec, np.dtype("<f4"), unit)
    assert one is not None
    few, many = (shard_coding(codec, one, unit, 2 * LARGE_BYTES, rows) for rows in (1, 16))
    assert few.in_place is many.in_place is in_place
    assert in_place == (many.encoding_bytes < few.encoding_bytes // 4)


def test_what_compressors_keep_for_themselves_counts() -> None:
    size, u1 = 64 << 20, np.dtype("u1")
    sizes = [(coding(Codec.parse(text), u1, size) or Coding(0, 0)).encoding_bytes for text in ("zstd:1", "zstd:19")]
    assert sizes[0] < 2 * STEP_BYTES + (2 << 20)
    assert sizes[1] > 80 << 20


@pytest.mark.parametrize(
    ("path", "codec", "shards"),
    [("x.zarr", "zstd:1", None), ("x.zarr", "zstd:1", (2 << 20,)), ("x.h5", "shuffle+gzip:1", None)],
)
def test_what_is_stored_of_a_source_is_known(
    path: str, codec: str, shards: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """Room is kept for what there is, not for what could be; a larger chunk that comes later is not read."""
    np.save(tmp_path / "x.npy", np.arange(3 << 20, dtype="<f4"))
    source, target = tmp_path / path, tmp_path / "y.npy"
    reblock.repartition(tmp_path / "x.npy", source, chunks=(1 << 20,), shards=shards, codec=codec)
    job = reblock.plan(source, target, memory="64MiB")
    assert job.source is not None
    stored = job.source.layout.stored_bytes
    assert len(stored) >= 3  # a shard may hold chunks that lie outside of the array
    assert 3 << 20 > stored[0] >= stored[1] >= stored[2] > 0
    reblock.run(job)
    assert np.array_equal(np.load(target), np.load(tmp_path / "x.npy"))


@pytest.mark.parametrize("dtype", [None, "<f8"])
@pytest.mark.parametrize(
    ("path", "codec", "shards"),
    [("x.zarr", "zstd:1", None), ("x.zarr", "blosc:lz4:1", (4 << 20,)), ("x.h5", "gzip:1", None)],
)
def test_room_is_kept_for_the_largest_that_are_in_flight(
    path: str, codec: str, shards: tuple[int, ...] | None, dtype: str | None, tmp_path: Path
) -> None:
    """One chunk of 12 does not compress: it is read more than once, and never takes memory of its size twice."""
    data = np.zeros(12 << 20, "<f4")
    data[1 << 20 : 2 << 20] = np.random.default_rng(0).standard_normal(1 << 20)
    np.save(tmp_path / "x.npy", data)
    source = tmp_path / path
    reblock.repartition(tmp_path / "x.npy", source, chunks=(1 << 20,), shards=shards, codec=codec)
    job = reblock.plan(source, tmp_path / "y.zarr", chunks=(300_000,), codec="none", dtype=dtype, memory="96MiB")
    assert job.source is not None
    layout = job.source.layout
    assert layout.stored_bytes[0] > 3 << 20 > 1 << 20 > layout.stored_bytes[1]
    assert sum(layout.largest_stored_bytes(12)) < 5 << 20
    report = reblock.run(job)
    assert report.measured.peak_bytes <= job.cost.peak_bytes
    array: Any = zarr.open_array(tmp_path / "y.zarr", mode="r")
    assert np.array_equal(array[...], data)


@pytest.mark.parametrize("shards", [None, (1 << 20,)])
def test_chunks_that_have_grown_since_are_not_read(shards: tuple[int, ...] | None, tmp_path: Path) -> None:
    other = np.random.default_rng(0).integers(0, 1 << 32, 2 << 20, "u4").view("<f4")
    for name, data in (("x", np.zeros_like(other)), ("z", other)):
        np.save(tmp_path / f"{name}.npy", data)
        path = tmp_path / f"{name}.zarr"
        reblock.repartition(tmp_path / f"{name}.npy", path, chunks=(1 << 20,), shards=shards, codec="zstd:1")
    source = tmp_path / "x.zarr"
    job = reblock.plan(source, tmp_path / "y.npy")
    (tmp_path / "z.zarr" / "c" / "1").replace(source / "c" / "1")
    with pytest.raises(reblock.CorruptError, match=r"at most \d+ bytes, or did when the run was planned"):
        reblock.run(job)


def test_a_link_is_not_measured(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2 << 20, "<f4"))
    source = tmp_path / "x.zarr"
    reblock.repartition(tmp_path / "x.npy", source, chunks=(1 << 20,), codec="zstd:1")
    (source / "c" / "1").rename(source / "c" / "one")
    (source / "c" / "1").symlink_to("one")
    job = reblock.plan(source, tmp_path / "y.npy")
    assert job.source is not None
    assert not job.source.layout.stored_bytes
    reblock.run(job)
