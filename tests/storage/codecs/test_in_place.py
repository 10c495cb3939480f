"""Encoding in the memory of the elements: the same frames, whatever does not compress, and nothing outside."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr

import reblock
from reblock.model import Schema
from reblock.model.codec import Codec
from reblock.model.store import fresh
from reblock.storage.codecs import blosc, compiled, zstd
from reblock.storage.codecs.blosc import BloscSettings
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.in_place import STEP_BYTES
from reblock.storage.hdf5.filters import decode, encode, pipeline_of
from reblock.storage.zarr import shards as zarr_shards
from reblock.storage.zarr.files import describe
from reblock.testing.arrays import Array, same_bits

RNG = np.random.default_rng(11)
PART = 128
GUARD = 0xA5


def noise(size: int) -> Array:
    return RNG.integers(0, 256, size, np.uint8)


SIZES = (16 << 20, (16 << 20) + 8, (21 << 20) + 1000, 18 << 20)
CASES: dict[str, Array] = {
    "smooth": np.cumsum(RNG.standard_normal(SIZES[0] // 4)).astype("f4").view(np.uint8),
    "counts": RNG.poisson(30, SIZES[1] // 8).astype("<i8").view(np.uint8),
    "noise": noise(SIZES[2]),
    "noise, then nothing": np.concatenate([noise(9 << 20), np.zeros(9 << 20, np.uint8)]),
    "nothing, then noise": np.concatenate([np.zeros(9 << 20, np.uint8), noise(9 << 20)]),
}
EVERY_CASE = pytest.mark.parametrize("name", CASES)
CODECS = (
    "gzip:1",
    "zstd:1",
    "zstd:-3",
    "blosc:lz4:1",
    "shuffle+zlib:1",
    "shuffle+zstd:1",
    "blosc:zstd:1+crc32c",
    "zstd:1+crc32c",
)


def with_room(data: Array) -> tuple[Array, Array, Array]:
    """Data in the memory that the engine would give it, that memory, and all of it with something behind."""
    room = data.size + data.size // PART
    memory = np.full(room + 64, GUARD, np.uint8)
    memory[: data.size] = data
    return memory[: data.size], memory[:room], memory


@EVERY_CASE
@pytest.mark.parametrize("text", CODECS)
def test_what_is_stored_takes_the_place_of_the_elements(name: str, text: str) -> None:
    chain = Chain(Codec.parse(text), np.dtype("<f4"))
    data, room, memory = with_room(CASES[name])
    stored = chain.encode(data, room)
    assert stored.ctypes.data == room.ctypes.data
    assert (memory[room.size :] == GUARD).all()
    back = np.zeros_like(CASES[name])
    chain.decode(stored.data, back)
    assert same_bits(back, CASES[name])


@EVERY_CASE
@pytest.mark.parametrize("text", ["gzip:1", "shuffle+gzip:1+fletcher32"])
def test_so_it_does_for_hdf5(name: str, text: str) -> None:
    pipeline = pipeline_of(Codec.parse(text), 4)
    data, room, memory = with_room(CASES[name])
    stored = encode(data, pipeline, room)
    assert stored.ctypes.data == room.ctypes.data
    assert (memory[room.size :] == GUARD).all()
    back = np.zeros_like(CASES[name])
    decode(stored.data, pipeline, 0, back)
    assert same_bits(back, CASES[name])


SHARD = (8, 512, 1024)


@EVERY_CASE
@pytest.mark.parametrize("text", ["zstd:1", "shuffle+gzip:1+crc32c", "blosc:lz4:1"])
@pytest.mark.parametrize(
    ("chunk", "order", "at_start"),
    [((2, 64, 32), (0, 1, 2), False), ((8, 64, 32), (1, 2, 0), True), (SHARD, (0, 1, 2), False)],
)
def test_a_shard_takes_the_place_of_its_elements(
    name: str, text: str, chunk: tuple[int, ...], order: tuple[int, ...], at_start: bool
) -> None:
    schema = Schema(SHARD, np.dtype("<f4"), chunk, SHARD, order, Codec.parse(text))
    meta = describe(schema, 3)
    assert meta.layout.in_place
    assert meta.shard is not None
    shard = replace(meta.shard, at_start=at_start)
    data, room, memory = with_room(CASES[name][: prod(SHARD) * 4])
    beside = zarr_shards.encode(meta, shard, data, None, fresh).copy()
    stored = zarr_shards.encode(meta, shard, data, room, fresh)
    assert stored.ctypes.data == room.ctypes.data
    assert same_bits(stored, beside)
    assert (memory[room.size :] == GUARD).all()


@pytest.mark.parametrize("text", ["zstd:1", "blosc:zstd:1", "gzip:1"])
@pytest.mark.parametrize("transpose", [None, (2, 0, 1)])
def test_zarr_python_reads_shards_that_were_made_in_place(
    text: str, transpose: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """Some that stick out of the array, and some that do not compress."""
    data = np.cumsum(RNG.standard_normal((140, 160, 400)), 0).astype("<f4")
    data[:70] = RNG.integers(0, 1 << 32, data[:70].shape, np.uint32).view("<f4")
    np.save(tmp_path / "a.npy", data)
    shapes: Any = {"chunks": (32, 64, 64), "shards": (128, 128, 256)}
    assert describe(Schema(data.shape, data.dtype, **shapes, codec=Codec.parse(text)), 3).layout.in_place
    reblock.repartition(tmp_path / "a.npy", tmp_path / "b.zarr", codec=text, transpose=transpose, **shapes)
    array: Any = zarr.open_array(tmp_path / "b.zarr", mode="r")
    # A shard is no longer than the chunks that the array has along an axis.
    assert (array.chunks, array.shards) == (shapes["chunks"], (128, 128, 256 if transpose is None else 192))
    assert same_bits(array[...], data if transpose is None else np.ascontiguousarray(data.transpose(transpose)))


@pytest.mark.parametrize("typesize", [1, 3, 4, 8, 17])
@pytest.mark.parametrize("cname", ["lz4", "zstd", "blosclz"])
@pytest.mark.parametrize("name", ["smooth", "counts", "nothing, then noise"])
def test_groups_of_blocks_make_the_frame_of_all(name: str, cname: str, typesize: int) -> None:
    data, room, _ = with_room(CASES[name])
    settings = BloscSettings(cname, 2, 1, typesize, 0)
    theirs = np.frombuffer(numcodecs.Blosc(cname, 2, 1, typesize=typesize).encode(CASES[name]), np.uint8)
    ours = blosc.compress(data, room, fresh, settings)
    assert ours is not None
    if theirs[2] & 2:  # it did not compress, and was stored as it is
        assert ours.size <= data.size + data.size // PART
    else:
        assert same_bits(ours, theirs)
    assert same_bits(np.frombuffer(numcodecs.Blosc().decode(ours.tobytes()), np.uint8), CASES[name])


def test_blosc_says_where_it_cannot() -> None:
    data, room, _ = with_room(noise(8 << 20))
    settings = BloscSettings("lz4", 5, 1, 4, 0)
    for unfit in (settings._replace(clevel=0), settings._replace(blocksize=256)):
        assert blosc.compress(data, room, fresh, unfit) is None
    assert blosc.compress(data[: STEP_BYTES + 1], room[: STEP_BYTES + 100_000], fresh, settings) is None
    assert same_bits(data, room[: data.size])


@pytest.mark.parametrize("text", ["zstd:1", "blosc:lz4:1", "gzip:1", "shuffle+zlib:1"])
def test_memory_that_is_too_short_is_left_alone(text: str) -> None:
    chain, data = Chain(Codec.parse(text), np.dtype("u1")), noise(1 << 20)
    before = data.copy()
    stored = chain.encode(data, data)
    assert not np.may_share_memory(stored, data)
    assert same_bits(data, before)
    assert same_bits(stored, chain.encode(data))


@pytest.mark.parametrize("text", ["zstd:3", "blosc:zstd:3", "shuffle+gzip:4", "shuffle+zstd:1+crc32c"])
def test_without_the_libraries(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, data = Chain(Codec.parse(text), np.dtype("<f4")), CASES["smooth"][: 1 << 20]
    ours = chain.encode(data)
    for module in (compiled, blosc, zstd):
        monkeypatch.setattr(module, "library", lambda _: None)
    monkeypatch.setattr("reblock.storage.codecs.zlib_streams.library", lambda _: None)
    theirs, back = chain.encode(data), np.zeros_like(data)
    if "gzip" not in text:
        assert same_bits(ours, theirs)
    for stored in (ours, theirs):
        chain.decode(stored.data, back)
        assert same_bits(back, data)


def test_stages_do_not_meet_in_scratch_memory() -> None:
    """Memory of the same name is the same, and each stage reads what the one before it wrote."""
    slots: dict[str, Array] = {}

    def scratch(name: str, size: int) -> Array:
        if slots.get(name, np.empty(0)).size < size:
            slots[name] = np.empty(size, np.uint8)
        return slots[name]

    data = CASES["smooth"][: 1 << 20]
    for text in ("shuffle+gzip:1", "gzip:1+zstd:1", "zstd:1+zlib:1+zstd:1", "shuffle+blosc:lz4:1+gzip:1+crc32c"):
        chain, back = Chain(Codec.parse(text), np.dtype("<f4")), np.zeros_like(data)
        for _ in range(2):
            chain.decode(chain.encode(data, None, scratch).copy().data, back, scratch)
            assert same_bits(back, data)
