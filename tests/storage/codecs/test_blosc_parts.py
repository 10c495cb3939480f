"""Chunks in parts: Blosc's blocks against the whole frames, and frames that are not as others are."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from zarr.codecs import BloscCodec, Crc32cCodec, TransposeCodec

from reblock.errors import CorruptError, UnevenError
from reblock.model import Divisible
from reblock.storage import registry
from reblock.testing.arrays import noise, same_bits
from reblock.testing.reference_io import read_array
from zarr_python import by_zarr

SHAPE, CHUNKS = (3, 400, 128), (2, 256, 128)


def steps(dtype: str = "<f4", shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """What Blosc makes less of."""
    return np.cumsum(np.random.default_rng(2).integers(0, 3, shape), -1).astype(dtype)


def blosc(name: str = "zstd", shuffle: str = "shuffle", block: int = 1 << 14) -> BloscCodec:
    return BloscCodec(cname=name, clevel=1, shuffle=shuffle, blocksize=block)


def stored(path: Path, data: np.ndarray | None = None, **options: Any) -> Any:
    data = steps() if data is None else data
    return registry.open(by_zarr(path, data, **{"chunks": CHUNKS, "compressors": [blosc()], **options}))


def parts(store: Any) -> Any:
    assert isinstance(store, Divisible)
    divided = store.divided()
    assert divided is not None
    return divided


@pytest.mark.parametrize("shuffle", ["shuffle", "bitshuffle", "noshuffle"])
@pytest.mark.parametrize("name", ["zstd", "lz4", "lz4hc", "blosclz", "zlib"])
@pytest.mark.parametrize("dtype", ["<u2", "<f4", "<c16"])
def test_parts_hold_the_same(tmp_path: Path, dtype: str, name: str, shuffle: str) -> None:
    data = steps(dtype)
    store = stored(tmp_path / "x.zarr", data, compressors=[blosc(name, shuffle)])
    divided = parts(store)
    assert divided.layout.objects == store.layout.objects
    assert divided.layout.units.count > store.layout.units.count
    assert same_bits(read_array(divided), data)


@pytest.mark.parametrize(
    "options",
    [
        {"filters": [TransposeCodec(order=(2, 0, 1))]},
        {"zarr_format": 2, "order": "F", "compressors": [numcodecs.Blosc("zstd", 1, 1)]},
        {"zarr_format": 2, "compressors": [numcodecs.Blosc("lz4", 5, 2, 1 << 15)]},
        {"chunks": (2, 8, 4096)},
        {"chunks": (4, 256, 128)},
        {"chunks": (1, 40, 128), "compressors": [blosc(block=20480)]},
        {"compressors": [blosc(block=0)]},
    ],
)
def test_other_orders_versions_and_chunks(tmp_path: Path, options: dict[str, Any]) -> None:
    data = steps("<f8")
    divided = parts(stored(tmp_path / "x.zarr", data, **options))
    assert same_bits(read_array(divided), data)


def test_blocks_that_do_not_compress_lie_there_as_they_are(tmp_path: Path) -> None:
    data = noise(SHAPE, "<f4")
    divided = parts(stored(tmp_path / "x.zarr", data, compressors=[blosc("lz4")]))
    assert (tmp_path / "x.zarr/c/0/0/0").read_bytes()[2] & 2
    assert same_bits(read_array(divided), data)


def test_chunks_that_are_not_stored_are_fill(tmp_path: Path) -> None:
    data = steps()
    divided = parts(stored(tmp_path / "x.zarr", data))
    for path in ("0/0/0", "1/1/0"):
        (tmp_path / "x.zarr/c" / path).unlink()
    data[:2, :256] = data[2:, 256:] = 0
    assert same_bits(read_array(divided), data)


def frame(path: Path) -> tuple[bytearray, list[int], int]:
    """A frame, where its blocks start, and bytes of one."""
    stored = bytearray(path.read_bytes())
    nbytes, block = struct.unpack("<II", stored[4:12])
    return stored, list(struct.unpack_from(f"<{nbytes // block}I", stored, 16)), block


def test_blocks_may_lie_in_any_order(tmp_path: Path) -> None:
    divided = parts(stored(tmp_path / "x.zarr"))
    path = tmp_path / "x.zarr/c/0/0/0"
    old, starts, _ = frame(path)
    ends = [*starts[1:], len(old)]
    new, places = old[: starts[0]], {}
    for number in reversed(range(len(starts))):
        places[number] = len(new)
        new += old[starts[number] : ends[number]]
    struct.pack_into(f"<{len(starts)}I", new, 16, *(places[number] for number in range(len(starts))))
    assert new != old
    path.write_bytes(new)
    assert same_bits(read_array(divided), steps())


@pytest.mark.parametrize(
    "options",
    [
        {"compressors": None},
        {"compressors": [blosc(), Crc32cCodec()]},
        {"chunks": (1, 8, 8)},
        {"chunks": (2, 100, 125)},
        {"chunks": (1, 128, 128), "shards": CHUNKS},
    ],
    ids=["raw", "two codecs", "one block", "no rows", "shards"],
)
def test_what_cannot_be_divided(tmp_path: Path, options: dict[str, Any]) -> None:
    assert stored(tmp_path / "x.zarr", **options).divided() is None


def test_an_array_without_chunks_or_axes_is_not_divided(tmp_path: Path) -> None:
    store = stored(tmp_path / "x.zarr")
    for path in (tmp_path / "x.zarr/c").rglob("0"):
        if path.is_file():
            path.unlink()
    assert store.divided() is None
    for name, shape in (("y.zarr", ()), ("z.zarr", (0, 5))):
        data = np.zeros(shape, "<f4")
        assert stored(tmp_path / name, data, chunks=tuple(max(n, 1) for n in shape)).divided() is None


def test_chunks_that_differ_are_named(tmp_path: Path) -> None:
    store = stored(tmp_path / "x.zarr")
    divided = parts(store)
    other = stored(tmp_path / "y.zarr", compressors=[blosc(block=1 << 16)])
    assert parts(other).parts != divided.parts
    (tmp_path / "x.zarr/c/1/0/0").write_bytes((tmp_path / "y.zarr/c/1/0/0").read_bytes())
    with pytest.raises(UnevenError, match=r"/c/1/0/0: blocks of 65,536 bytes, those of other chunks have"):
        read_array(divided)
    assert store.divided() is None


@pytest.mark.parametrize("damage", ["place", "end", "size", "version", "short", "shorter"])
def test_frames_that_lie_are_named(tmp_path: Path, damage: str) -> None:
    divided = parts(stored(tmp_path / "x.zarr"))
    path = tmp_path / "x.zarr/c/0/0/0"
    stored_bytes, starts, _ = frame(path)
    if damage == "place":
        struct.pack_into("<I", stored_bytes, 16, 3)
    elif damage == "end":
        struct.pack_into("<I", stored_bytes, 16 + 4 * (len(starts) - 1), 1 << 31)
    elif damage == "size":
        stored_bytes[5] ^= 1
    elif damage == "version":
        stored_bytes[0] = 3
    else:
        del stored_bytes[len(stored_bytes) - 9 if damage == "short" else 30 :]
    path.write_bytes(stored_bytes)
    with pytest.raises(CorruptError, match=r"/c/0/0/0"):
        read_array(divided)
