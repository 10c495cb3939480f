"""A chunk that is lost, cut, too long or changed: an error that names array, chunk, file and bytes, or fill."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock

SHAPE, CHUNK = (8, 8), (4, 4)
DATA = np.arange(64, dtype="<i4").reshape(SHAPE)
#: By name: the target of a run, its options, and the file of chunk (1,1).
FORMATS: dict[str, tuple[str, dict[str, Any], str]] = {
    "npy": ("x.npy", {}, "x.npy"),
    "blocks": ("x/", {}, "x/1_1.npy"),
    "rawblocks": ("r", {"to_format": "rawblocks"}, "r/1_1.bin"),
    "zarr": ("x.zarr", {"codec": "none"}, "x.zarr/c/1/1"),
    "zarr gzip": ("x.zarr", {"codec": "gzip:1"}, "x.zarr/c/1/1"),
    "zarr blosc": ("x.zarr", {"codec": "blosc:lz4:5"}, "x.zarr/c/1/1"),
    "zarr zstd crc32c": ("x.zarr", {"codec": "zstd:1+crc32c"}, "x.zarr/c/1/1"),
    "zarr shards": ("x.zarr", {"codec": "none", "chunks": (2, 2), "shards": (4, 4)}, "x.zarr/c/1/1"),
    "zarr shards gzip": ("x.zarr", {"codec": "gzip:1", "chunks": (2, 2), "shards": (4, 4)}, "x.zarr/c/1/1"),
    "zarr2": ("x.zarr", {"codec": "none", "to_format": "zarr2"}, "x.zarr/1.1"),
    "zarr2 lz4": ("x.zarr", {"codec": "lz4:1", "to_format": "zarr2"}, "x.zarr/1.1"),
    "hdf5": ("x.h5", {"codec": "none"}, "x.h5"),
    "hdf5 gzip": ("x.h5", {"codec": "shuffle+gzip:1"}, "x.h5"),
    "hdf5 fletcher32": ("x.h5", {"codec": "fletcher32"}, "x.h5"),
    "hdf5 lzf": ("x.h5", {"codec": "lzf"}, "x.h5"),
}
ENCODED = (
    "zarr gzip",
    "zarr blosc",
    "zarr zstd crc32c",
    "zarr shards gzip",
    "zarr2 lz4",
    "hdf5 gzip",
    "hdf5 fletcher32",
)
FILES = [name for name, (_, _, file) in FORMATS.items() if not file.endswith(".h5")]
FILLS = [name for name in FORMATS if name.startswith("zarr")]


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], tuple[str, Path]]:
    """Make an array of a format: its location, and the file of its last chunk."""

    def make(name: str) -> tuple[str, Path]:
        target, options, file = FORMATS[name]
        np.save(tmp_path / "seed.npy", DATA)
        reblock.repartition(tmp_path / "seed.npy", f"{tmp_path}/{target}", **{"chunks": CHUNK, **options})
        return f"{tmp_path}/{target}".rstrip("/"), tmp_path / file

    return make


def refused(location: str, file: Path) -> None:
    """Reading and running both say which bytes of which chunk are wrong."""
    target = Path(location).parent / "out.npy"
    which = r"(bytes -?\d+ to \d+|the last \d+ bytes): ."
    words = rf"{re.escape(location)}.*chunk \(1,1\).*{re.escape(str(file))}, {which}"
    for read in (lambda: reblock.open(location)[...], lambda: reblock.repartition(location, target, memory="64MiB")):
        with pytest.raises(reblock.CorruptError) as caught:
            read()
        assert re.search(words, str(caught.value)), str(caught.value)
    assert not target.exists()


@pytest.mark.parametrize("name", [name for name in FILES if name != "npy"])
@pytest.mark.parametrize("keep", [0, 1, -1])
def test_cut(name: str, keep: int, made: Callable[[str], tuple[str, Path]]) -> None:
    location, file = made(name)
    size = file.stat().st_size
    os.truncate(file, keep if keep >= 0 else size + keep)
    refused(location, file)


@pytest.mark.parametrize("keep", [0, 1, -1])
def test_cut_npy(keep: int, made: Callable[[str], tuple[str, Path]]) -> None:
    location, file = made("npy")
    os.truncate(file, keep if keep >= 0 else file.stat().st_size + keep)
    with pytest.raises(reblock.StorageError, match=re.escape(str(file))):
        reblock.open(location)


@pytest.mark.parametrize("name", ["blocks", "rawblocks", *(name for name in FILLS if "shards" not in name)])
def test_too_long(name: str, made: Callable[[str], tuple[str, Path]]) -> None:
    location, file = made(name)
    with file.open("ab") as stream:
        stream.write(b"more")
    refused(location, file)


@pytest.mark.parametrize("name", ENCODED)
def test_changed(name: str, made: Callable[[str], tuple[str, Path]]) -> None:
    """Bytes in the middle of the last chunk become others."""
    location, file = made(name)
    data = bytearray(file.read_bytes())
    if file.suffix == ".h5":
        with h5py.File(file) as opened:
            info = opened["data"].id.get_chunk_info_by_coord((4, 4))
        start, stop = info.byte_offset, info.byte_offset + info.size
    else:
        start, stop = (8, 20) if "shards" in name else (0, len(data))
    for place in range(start, stop):
        data[place] ^= 0xA5
    file.write_bytes(data)
    refused(location, file)


@pytest.mark.parametrize("codec", ["none", "gzip:1", "lzf"])
def test_hdf5_that_ends_inside_its_last_chunk(codec: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        options = {} if codec == "none" else {"compression": codec.partition(":")[0]}
        file.create_dataset("data", data=DATA, chunks=CHUNK, **options)
    os.truncate(tmp_path / "x.h5", (tmp_path / "x.h5").stat().st_size - 3)
    with pytest.raises(reblock.StorageError, match=r"x\.h5"):
        reblock.open(tmp_path / "x.h5")[...]


# ---------------------------------------------------------------- chunks that are not there
@pytest.mark.parametrize("name", FILLS)
def test_missing_chunks_are_counted(name: str, tmp_path: Path, made: Callable[[str], tuple[str, Path]]) -> None:
    location, file = made(name)
    file.unlink()
    report = reblock.repartition(location, tmp_path / "filled.npy")
    expected = DATA.copy()
    expected[4:, 4:] = 0
    assert (np.load(tmp_path / "filled.npy") == expected).all()
    assert report.missing_chunks == (4 if "shards" in name else 1)
    assert report.to_json()["missing_chunks"] == report.missing_chunks
    with pytest.raises(reblock.CorruptError, match=r"chunk \(\d,\d\) is missing"):
        reblock.repartition(location, tmp_path / "strict.npy", on_missing="error")
    assert not (tmp_path / "strict.npy").exists()


@pytest.mark.parametrize("name", ["blocks", "rawblocks"])
@pytest.mark.parametrize("on_missing", ["fill", "error"])
def test_missing_blocks_are_errors(
    name: str, on_missing: str, tmp_path: Path, made: Callable[[str], tuple[str, Path]]
) -> None:
    """Their format defines no fill for blocks that are not there."""
    location, file = made(name)
    file.unlink()
    with pytest.raises(reblock.CorruptError, match=r"chunk \(1,1\) is missing"):
        reblock.repartition(location, tmp_path / "filled.npy", on_missing=on_missing)


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"compression": "lzf"}], ids=["raw", "gzip", "lzf"])
def test_missing_chunks_of_hdf5(options: dict[str, Any], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("data", SHAPE, "<i4", chunks=CHUNK, fillvalue=7, **options)
        dataset[:4] = DATA[:4]
        dataset[4:, :4] = DATA[4:, :4]
    expected = DATA.copy()
    expected[4:, 4:] = 7
    report = reblock.repartition(tmp_path / "x.h5", tmp_path / "filled.npy")
    assert (np.load(tmp_path / "filled.npy") == expected).all()
    assert report.missing_chunks == 1
    with pytest.raises(reblock.CorruptError, match=r"chunk \(1,1\) is missing"):
        reblock.repartition(tmp_path / "x.h5", tmp_path / "strict.npy", on_missing="error")
