"""Arrays go from any format to any other and come out bit-identical, read by the format's own library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import reblock

FORMATS = {"npy": "x.npy", "blocks": "x/", "zarr": "x.zarr", "hdf5": "x.h5"}
DTYPES = ["?", "i1", "u1", "<i2", ">i2", "<u2", "<i4", ">u4", "<i8", ">i8", "<u8", "<f2", ">f2", "<f4", ">f4", "<f8"]
DTYPES += [">f8", "<c8", ">c8", "<c16"]
SHAPES = [(), (0,), (1,), (7,), (5, 0, 3), (13, 11), (1, 1, 1), (7, 6, 5), (3, 5, 4, 3), (3, 2, 4, 3, 5)]
PAIRS = list(product(FORMATS, FORMATS))


def with_pairs(values: Sequence[Any]) -> list[Any]:
    """Each value with all pairs of formats; by default each format reads it once and writes it once."""
    names = list(FORMATS)
    return [
        pytest.param(
            first,
            second,
            value,
            marks=() if (names.index(second) - names.index(first) - place) % len(names) == 0 else pytest.mark.faults,
            id=f"{first}-{second}-{value}",
        )
        for place, value in enumerate(values)
        for first, second in PAIRS
    ]


def sample(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random bits, so that NaN payloads, negative zeros and subnormals occur."""
    kind = np.dtype(dtype)
    raw = np.random.default_rng(len(shape)).integers(0, 256, int(np.prod(shape)) * kind.itemsize, np.uint8)
    if kind.kind == "b":
        raw &= 1
    return raw.view(kind).reshape(shape)


def native(path: Path) -> np.ndarray:
    """The array as the format's own library reads it."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zarr":
        return np.asarray(zarr.open_array(str(path), mode="r")[...])
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return np.asarray(file["data"][()])
    manifest = json.loads((path / "reblock.json").read_text())
    shape = tuple(manifest["shape"])
    out = np.empty(shape, manifest["dtype"])
    if 0 in shape:
        return out
    starts = []
    for cut, length in zip(manifest["chunks"], shape, strict=True):
        lengths = cut if isinstance(cut, list) else [min(cut, length - a) for a in range(0, length, cut)]
        starts.append([0, *np.cumsum(lengths)])
    for index in product(*(range(len(s) - 1) for s in starts)):
        box = tuple(slice(s[i], s[i + 1]) for s, i in zip(starts, index, strict=True))
        out[box] = np.load(path / ("_".join(map(str, index)) + ".npy" if index else "0.npy"))
    return out


def location(folder: Path, kind: str) -> str:
    return f"{folder}/{FORMATS[kind]}" + ("::data" if kind == "hdf5" else "")


def plain(folder: Path, kind: str) -> Path:
    return folder / FORMATS[kind].rstrip("/")


def bits(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def check(tmp_path: Path, array: np.ndarray, first: str, second: str, one: tuple, two: tuple) -> None:
    folders = [tmp_path / name for name in ("seed", "first", "second")]
    for folder in folders:
        folder.mkdir()
    np.save(folders[0] / "x.npy", array)
    reblock.repartition(folders[0] / "x.npy", location(folders[1], first), chunks=one, memory="1MiB")
    reblock.repartition(location(folders[1], first), location(folders[2], second), chunks=two, memory="1MiB")
    for folder, kind in ((folders[1], first), (folders[2], second)):
        found = native(plain(folder, kind))
        assert found.shape == array.shape
        assert found.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        assert bits(found) == bits(array)
        assert sorted(p.name for p in folder.iterdir()) == [plain(folder, kind).name]
    assert reblock.verify(location(folders[1], first), location(folders[2], second), reader="library").equal


@pytest.mark.parametrize(("first", "second", "dtype"), with_pairs(DTYPES))
def test_every_dtype(first: str, second: str, dtype: str, tmp_path: Path) -> None:
    check(tmp_path, sample((7, 6, 5), dtype), first, second, (3, 4, 2), (2, 5, 5))


@pytest.mark.parametrize(("first", "second", "shape"), with_pairs(SHAPES))
def test_every_shape(first: str, second: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    one = tuple(max(n // 2, 1) for n in shape)
    two = tuple(max(n - 1, 1) for n in shape)
    check(tmp_path, sample(shape, "<f4"), first, second, one, two)


@pytest.mark.parametrize("second", FORMATS)
def test_irregular_blocks(second: str, tmp_path: Path) -> None:
    array = sample((10, 9), "<i4")
    np.save(tmp_path / "seed.npy", array)
    reblock.repartition(tmp_path / "seed.npy", f"{tmp_path}/one/", chunks="3+3+4,2+7")
    assert reblock.open(tmp_path / "one").chunks == ((3, 3, 4), (2, 7))
    reblock.repartition(tmp_path / "one", location(tmp_path, second), chunks=(4, 4))
    assert bits(native(plain(tmp_path, second))) == bits(array)
    reblock.repartition(location(tmp_path, second), f"{tmp_path}/two/", chunks=((1, 8, 1), 9))
    assert reblock.verify(tmp_path / "seed.npy", tmp_path / "two", reader="library").equal


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_crop_and_transpose(first: str, second: str, tmp_path: Path) -> None:
    array = sample((9, 8, 7), "<u2")
    np.save(tmp_path / "seed.npy", array)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    source, target = location(tmp_path / "first", first), location(tmp_path / "second", second)
    reblock.repartition(tmp_path / "seed.npy", source, chunks=(4, 3, 5))
    options = {"region": "1:9,:,2:6", "transpose": "2,0,1"}
    reblock.repartition(source, target, chunks=(3, 5, 2), **options)
    assert bits(native(plain(tmp_path / "second", second))) == bits(array[1:9, :, 2:6].transpose(2, 0, 1))
    assert reblock.verify(source, target, **options, reader="library").equal
    assert not reblock.verify(source, target, reader="library").equal


@pytest.mark.parametrize(
    ("target", "codec"),
    [
        ("x.zarr", "zstd:1"),
        ("x.zarr", "gzip:3"),
        ("x.zarr", "blosc:lz4:5:bitshuffle"),
        ("x.zarr", "blosc:zstd:3:shuffle+crc32c"),
        ("x.h5::data", "gzip:4"),
        ("x.h5::data", "shuffle+gzip:6"),
        ("x.h5::data", "lzf"),
        ("x.h5::data", "shuffle+gzip:1+fletcher32"),
    ],
)
def test_codecs(target: str, codec: str, tmp_path: Path) -> None:
    array = np.round(sample((20, 18, 15), "<i2") / 999).astype("<i2")
    np.save(tmp_path / "seed.npy", array)
    reblock.repartition(tmp_path / "seed.npy", tmp_path / target, chunks=(7, 5, 15), codec=codec, memory="1MiB")
    assert bits(native(tmp_path / target.partition("::")[0])) == bits(array)
    assert reblock.info(tmp_path / target)["codec"] == codec
    for other in ("back.npy", "back.zarr", "back.h5", "back/"):
        report = reblock.repartition(tmp_path / target, f"{tmp_path}/{other}", memory="1MiB")
        # Options are marked in messages, and each speaker spells them its own way: notes have no speaker.
        assert all(note.isprintable() for note in report.notes)
    assert bits(np.load(tmp_path / "back.npy")) == bits(array)


@pytest.mark.parametrize("codec", ["none", "zstd:1"])
def test_shards(codec: str, tmp_path: Path) -> None:
    array = sample((20, 18, 15), "<i2")
    np.save(tmp_path / "seed.npy", array)
    options = {"chunks": (4, 3, 5), "shards": (12, 9, 5), "codec": codec, "memory": "1MiB"}
    reblock.repartition(tmp_path / "seed.npy", tmp_path / "x.zarr", **options)
    assert zarr.open_array(str(tmp_path / "x.zarr"), mode="r").shards == (12, 9, 5)
    assert bits(native(tmp_path / "x.zarr")) == bits(array)
    report = reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=(5, 18, 4), memory="1MiB")
    assert bits(native(tmp_path / "y.zarr")) == bits(array)
    assert report.measured.runs == report.predicted.runs


def test_plans_of_several_passes(tmp_path: Path) -> None:
    array = sample((64, 32, 32), "<f4")
    np.save(tmp_path / "seed.npy", array)
    reblock.repartition(tmp_path / "seed.npy", tmp_path / "x.zarr", chunks=(1, 32, 32), codec="zstd:1")
    job = reblock.plan(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=(64, 4, 4), memory="128KiB", objective="bytes")
    assert len(job.plan.passes) > 1
    report = reblock.run(job)
    assert report.measured.runs == report.predicted.runs
    assert bits(native(tmp_path / "y.zarr")) == bits(array)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["seed.npy", "x.zarr", "y.zarr"]


def test_dtype_conversion(tmp_path: Path) -> None:
    array = np.arange(60, dtype="<i4").reshape(6, 10)
    np.save(tmp_path / "seed.npy", array)
    reblock.repartition(tmp_path / "seed.npy", tmp_path / "x.zarr", chunks=(4, 4), dtype="f8")
    found = native(tmp_path / "x.zarr")
    assert found.dtype == np.dtype("f8")
    assert np.array_equal(found, array)
