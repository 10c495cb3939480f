"""Deflated units: chunks of HDF5 files, and zlib and gzip in Zarr; the compiled loop does what Python does."""

from __future__ import annotations

import ctypes
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.engine import native
from reblock.engine.native.loading import library
from reblock.storage import registry
from reblock.storage.codecs.checksums import fletcher32
from reblock.storage.codecs.zlib_streams import Container, decoder

pytestmark = pytest.mark.skipif(native.library() is None, reason="the compiled loop was not built")

FILTERS: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip"},
    "shuffle": {"compression": "gzip", "shuffle": True},
    "checked": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "sum": {"compression": "gzip", "fletcher32": True},
}
#: Shapes and chunks: strips of 64 KiB end inside a plane, inside a row, with a unit, and before it.
SHAPES = {
    "small": ((20, 30, 14), (7, 30, 5)),
    "planes": ((9, 150, 256), (4, 128, 256)),
    "rows": ((3, 70_001), (2, 40_000)),
    "long": ((300_000,), (140_001,)),
    "short": ((5, 3, 2, 2), (1, 1, 1, 1)),
}


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(native, "decoder", lambda _: None)
    return bool(request.param)


def field(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 250, shape).astype(dtype)


def stored(folder: Path, array: np.ndarray, chunks: tuple[int, ...], how: dict[str, Any]) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("data", data=array, chunks=chunks, **how)
    return folder / "x.h5"


@pytest.mark.parametrize(
    ("name", "how"), [*((name, "shuffle") for name in SHAPES), *(("small", how) for how in FILTERS if how != "shuffle")]
)
def test_chunks_of_hdf5(name: str, how: str, compiled: bool, tmp_path: Path) -> None:
    shape, chunks = SHAPES[name]
    array = field(shape, "<f4")
    made = stored(tmp_path, array, chunks, FILTERS[how])
    assert (native.decoder(registry.open(str(made)).decoder) is not None) == compiled
    report = reblock.repartition(made, tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)
    assert report.measured.bytes_read == report.predicted.bytes_read


@pytest.mark.parametrize("dtype", ["u1", "<i2", ">f4", "<f8", "c16", "S5"])
def test_elements_of_any_size(dtype: str, tmp_path: Path) -> None:
    array = field((40, 50, 60), dtype)
    made = stored(tmp_path, array, (16, 33, 60), FILTERS["shuffle"])
    assert registry.open(str(made)).decoder is not None
    reblock.repartition(made, tmp_path / "b.npy", region="1:39,2:,:57", transpose=(2, 0, 1))
    assert np.array_equal(np.load(tmp_path / "b.npy"), array[1:39, 2:, :57].transpose(2, 0, 1))


@pytest.mark.parametrize(
    "pipeline",
    [{"shuffle": True}, {"compression": "lzf"}, {"shuffle": True, "fletcher32": True}],
    ids="+".join,
)
def test_other_filters_are_undone_by_python(pipeline: dict[str, Any], tmp_path: Path) -> None:
    made = stored(tmp_path, field((20, 30), "<f4"), (7, 30), pipeline)
    assert registry.open(str(made)).decoder is None


def test_chunks_that_skipped_filters(compiled: bool, tmp_path: Path) -> None:
    """Bit n of the mask: the n-th filter was not applied."""
    array = field((3, 16), "<i4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("data", array.shape, "<i4", chunks=(1, 16), shuffle=True, compression="gzip")
        data[0] = array[0]
        data.id.write_direct_chunk((1, 0), zlib.compress(array[1].tobytes()), 0b01)
        data.id.write_direct_chunk((2, 0), array[2].tobytes(), 0b11)
    reblock.repartition(tmp_path / "x.h5", tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)


def test_chunks_that_are_not_stored(compiled: bool, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("data", (8, 16), "<i4", chunks=(2, 16), fillvalue=7, **FILTERS["shuffle"])
        data[2:4] = 3
    assert reblock.repartition(tmp_path / "x.h5", tmp_path / "b.npy").missing_chunks == 3
    assert np.load(tmp_path / "b.npy")[:, 0].tolist() == [7, 7, 3, 3, 7, 7, 7, 7]


@pytest.mark.parametrize(("how", "place"), [("shuffle", 0), ("shuffle", 30), ("gzip", -2), ("checked", -2)])
def test_damage_is_told_in_the_same_words(
    how: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stored(tmp_path, field((40, 50), "<f4"), (10, 50), FILTERS[how])
    with h5py.File(made) as file:
        info = file["data"].id.get_chunk_info(2)
    data = bytearray(made.read_bytes())
    data[info.byte_offset + place % info.size] ^= 0x5A
    made.write_bytes(data)
    answers = []
    for known in (native.decoder, lambda _: None):
        monkeypatch.setattr(native, "decoder", known)
        with pytest.raises(reblock.CorruptError) as error:
            reblock.repartition(made, tmp_path / "b.npy", overwrite=True)
        answers.append(str(error.value))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("options", [{}, {"to_format": "zarr2"}, {"shards": (14, 30, 10)}], ids=["v3", "v2", "shards"])
def test_gzip_in_zarr(options: dict[str, Any], compiled: bool, tmp_path: Path) -> None:
    array = field((20, 30, 14), "<f4")
    np.save(tmp_path / "x.npy", array)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "a.zarr", chunks=(7, 30, 5), codec="gzip:1", **options)
    assert (native.decoder(registry.open(str(tmp_path / "a.zarr")).decoder) is not None) == compiled
    reblock.repartition(tmp_path / "a.zarr", tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)


@pytest.mark.parametrize(("count", "width"), [(0, 4), (1, 1), (7, 2), (7, 3), (1000, 4), (1001, 8), (999, 16)])
def test_planes_become_elements(count: int, width: int) -> None:
    planes = field((width, count), "u1")
    made = np.zeros((count, width), np.uint8)
    call = library().reblock_regroup  # type: ignore[union-attr]
    assert call(native.address(planes), count, width, native.address(made)) == 0
    assert np.array_equal(made, planes.T)
    assert call(None, count, width, native.address(made)) == -1
    assert call(native.address(planes), -1, width, native.address(made)) == -1


@pytest.mark.parametrize("size", [1, 2, 719, 720, 721, 4000, 70_001])
def test_checksums_of_streams(size: int) -> None:
    """Streams of any length; Python's sum is compared with HDF5's elsewhere."""
    raw = np.full(size, 255, np.uint8) if size % 2 else field((size,), "u1")
    stream = np.frombuffer(zlib.compress(raw.tobytes(), 0), np.uint8)
    given = decoder(Container.ZLIB, checked=True)
    assert given is not None
    decode = library().reblock_deflate_decode  # type: ignore[union-attr]
    context, out = np.array(given.context, np.int64), np.zeros(size, np.uint8)
    for added in (0, 1):
        data = np.frombuffer(stream.tobytes() + (fletcher32(stream) ^ added).to_bytes(4, "little"), np.uint8)
        sizes = [ctypes.c_int64(one.size) for one in (data, out)]
        words = [ctypes.c_void_p(native.address(one)) for one in (context, data, out)]
        assert decode(words[0], words[1], sizes[0], words[2], sizes[1]) == -added
    assert np.array_equal(out, raw)
