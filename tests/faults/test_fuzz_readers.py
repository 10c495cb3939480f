"""Readers under fire: arrays with changed bytes give data or one typed error; never a signal, a hang or a traceback.

Hypothesis chooses the changes; a worker process reads, so that its death is noticed. The time for each reader, all its
variants together, is REBLOCK_FUZZ_SECONDS: short by default, ten minutes under `make fuzz`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import nibabel
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import reblock
from corpus import blocks, encoded, npy, zarr
from corpus.cases import SAMPLE
from corpus.worker import WHOLE, Worker

SECONDS = float(os.environ.get("REBLOCK_FUZZ_SECONDS", "4"))
#: Examples between two looks at the clock.
ROUND = 20


def _npy(folder: Path) -> str:
    (folder / "x.npy").write_bytes(npy.header(npy.described()) + npy.BODY)
    return "x.npy"


def _blocks(folder: Path) -> str:
    blocks.blocks(folder, attributes={"a": [1, {"b": None}]}, axes=["y", "x"], order=[0, 1])
    return "b"


def _encoded(codec: str, version: int) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        encoded.encoded(folder, codec, version)
        return "x.zarr"

    return make


def _filtered(folder: Path) -> str:
    filters = [{"id": "delta", "dtype": "<i4"}, {"id": "shuffle", "elementsize": 4}]
    zarr.array(folder, 2, lambda data: data, filters=filters, compressor=None)
    return "x.zarr"


def _shard(folder: Path) -> str:
    encoded.shard(folder)
    return "x.zarr"


def _compressed_shard(folder: Path) -> str:
    np.save(folder / "x.npy", SAMPLE)
    options = {"chunks": (4, 4), "shards": (8, 8), "codec": "blosc:lz4:5:shuffle"}
    reblock.repartition(folder / "x.npy", folder / "x.zarr", **options)
    (folder / "x.npy").unlink()
    return "x.zarr"


def _hdf5(
    libver: Any = "earliest", *, maxshape: Any = None, userblock: int = 0, **options: Any
) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        with h5py.File(folder / "x.h5", "w", libver=libver, userblock_size=userblock) as file:
            dataset = file.create_dataset("g/x", data=SAMPLE, maxshape=maxshape, fillvalue=7, **options)
            dataset.attrs["number"] = np.arange(3)
            dataset.attrs["text"] = "text of varying length"
            dataset.attrs["texts"] = ["one", "two"]
            dataset.dims[0].label = "y"
        return "x.h5::g/x"

    return make


def _nifti(ending: str, kind: Any = nibabel.Nifti1Image) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        image = kind(SAMPLE.astype(np.int32), np.diag([2.0, 3.0, 4.0, 1.0]))
        image.header.extensions.append(nibabel.nifti1.Nifti1Extension(6, b"a comment"))
        nibabel.save(image, folder / f"x{ending}")
        return "x.hdr" if ending == ".img" else f"x{ending}"

    return make


def _tiff(name: str = "x.tif", **options: Any) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        big = np.tile(SAMPLE, (3, 6, 6))
        np.save(folder / "x.npy", big)
        reblock.repartition(folder / "x.npy", folder / name, **options)
        (folder / "x.npy").unlink()
        return name

    return make


def _minc(name: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        shutil.copy(Path(nibabel.__file__).parent / "tests" / "data" / name, folder / "x.mnc")
        return "x.mnc"

    return make


def _netcdf(kind: str, **options: Any) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        with netCDF4.Dataset(folder / "x.nc", "w", format=kind) as file:
            file.createDimension("y", None)
            file.createDimension("x", 8)
            file.title = "a file"
            dataset = file.createVariable("v", "i4", ("y", "x"), fill_value=7, **options)
            dataset.units = "K"
            dataset[:] = SAMPLE
            file.createVariable("y", "i2", ("y",))[:] = np.arange(8)
        return "x.nc::v"

    return make


def _trees(to: str) -> Callable[[Path], str]:
    """Groups, arrays that share axes, and tables, in one of the formats that hold them."""

    def make(folder: Path) -> str:
        with h5py.File(folder / "x.h5", "w") as file:
            time = file.create_dataset("time", data=np.arange(8.0))
            time.make_scale("time")
            values = file.create_dataset("g/v", data=np.arange(8, dtype="f4"), chunks=(3,), compression="gzip")
            values.dims[0].attach_scale(time)
            values.attrs["scale"] = np.float32(0.5)
            file["g/top"] = file["/"]
            file.create_dataset("text", data=["one", "two", "three"], dtype=h5py.string_dtype(), chunks=(2,))
            file["record"] = np.zeros(5, [("a", "i4"), ("b", "f8")])
            colours = h5py.enum_dtype({"RED": 1}, basetype="i2")
            file.create_dataset("enum", data=np.ones(3, "i2"), dtype=colours)
        if to == "hdf5":
            return f"x.h5{WHOLE}"
        reblock.repartition(folder / "x.h5", folder / "x.zarr", to_format=to)
        (folder / "x.h5").unlink()
        return f"x.zarr{WHOLE}"

    return make


CHUNKED = {"chunks": (4, 4)}
READERS: dict[str, Callable[[Path], str]] = {
    "npy": _npy,
    "blocks": _blocks,
    **{f"zarr2-{name}": _encoded(name, 2) for name in encoded.CODECS},
    "zarr2-filters": _filtered,
    **{f"zarr3-{name}": _encoded(name, 3) for name, (_, v3, _) in encoded.CODECS.items() if v3},
    "zarr3-shard": _shard,
    "zarr3-shard-blosc": _compressed_shard,
    **{f"trees-{to}": _trees(to) for to in ("zarr", "zarr2", "hdf5")},
    "minc-1": _minc("tiny.mnc"),
    "minc-2": _minc("small.mnc"),
    "minc-2-gzip": _minc("minc2_4d.mnc"),
    "nifti-1": _nifti(".nii"),
    "nifti-2": _nifti(".nii", nibabel.Nifti2Image),
    "nifti-pair": _nifti(".img", nibabel.Nifti1Pair),
    "nifti-gz": _nifti(".nii.gz"),
    "tiff-strips": _tiff(),
    "tiff-tiles": _tiff(chunks=(1, 16, 16)),
    "tiff-zlib": _tiff(chunks=(1, 16, 16), codec="predictor+zlib:1"),
    "tiff-lzw": _tiff(codec="lzw"),
    "tiff-ome": _tiff("x.ome.tif"),
    "netcdf3": _netcdf("NETCDF3_CLASSIC"),
    "netcdf3-cdf5": _netcdf("NETCDF3_64BIT_DATA"),
    "netcdf": _netcdf("NETCDF4", zlib=True, chunksizes=(4, 4)),
    "hdf5-contiguous": _hdf5(),
    "hdf5-chunked": _hdf5(**CHUNKED),
    "hdf5-gzip": _hdf5(**CHUNKED, compression="gzip"),
    "hdf5-shuffle": _hdf5(**CHUNKED, compression="gzip", shuffle=True),
    "hdf5-fletcher32": _hdf5(**CHUNKED, fletcher32=True),
    "hdf5-all": _hdf5(**CHUNKED, compression="gzip", shuffle=True, fletcher32=True, userblock=512),
    "hdf5-lzf": _hdf5(**CHUNKED, compression="lzf"),
    "hdf5-latest": _hdf5("latest", **CHUNKED, compression="gzip"),
    "hdf5-resizable": _hdf5("latest", **CHUNKED, maxshape=(None, None)),
}


def _reader(name: str) -> str:
    """Which reader a variant belongs to."""
    return name.partition("-")[0]


# ---------------------------------------------------------------- changes
ODD = (
    None,
    True,
    False,
    -1,
    0,
    1,
    1.5,
    float("nan"),
    2**31,
    2**63,
    10**30,
    "",
    "x",
    "../x",
    "|O",
    [],
    {},
    [[]],
    [0],
    [8, 8, 8],
)


@dataclass(frozen=True)
class Change:
    """One change of one file."""

    kind: str
    """What is done."""
    file: int
    """Which file, by number."""
    place: float
    """Where, from 0 to 1."""
    other: float
    """A second place, or a length."""
    value: int
    """A byte, or which odd value."""

    def apply(self, data: bytes) -> bytes:
        """The file's new content."""
        at, to = int(self.place * len(data)), int(self.other * len(data))
        low, high = sorted((at, to))
        if self.kind == "flip":
            return data[:at] + bytes([data[at] ^ 1 << self.value % 8]) + data[at + 1 :] if data else data
        if self.kind == "set":
            return data[:at] + bytes([self.value]) + data[at + 1 :]
        if self.kind == "cut":
            return data[:at]
        if self.kind == "remove":
            return data[:low] + data[high:]
        if self.kind == "repeat":
            return data[:high] + data[low:]
        if self.kind == "fill":
            return data[:at] + bytes([self.value]) * 8 + data[at + 8 :]
        if self.kind == "copy":
            return data[:at] + data[to : to + 16] + data[at + 16 :]
        return self._change_json(data)

    def _change_json(self, data: bytes) -> bytes:
        """Another value somewhere in a document, or two values in each other's place."""
        try:
            document = json.loads(data)
            places = list(_places(document))
            (one, key), (two, other) = places[int(self.place * len(places))], places[int(self.other * len(places))]
        except (ValueError, IndexError, RecursionError):
            return data
        if self.kind == "odd value":
            one[key] = ODD[self.value % len(ODD)]
        else:
            one[key], two[other] = two[other], one[key]
        try:
            return json.dumps(document).encode()
        except (ValueError, RecursionError):
            # A value was put inside itself.
            return data


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(document, dict | list):  # an earlier change has left a single number, say
        return
    for key in list(document) if isinstance(document, dict) else range(len(document)):
        yield document, key
        yield from _places(document[key])


PART = st.floats(0, 1, exclude_max=True)
KINDS = ("flip", "flip", "set", "fill", "copy", "cut", "remove", "repeat", "odd value", "odd value", "swap")
CHANGES = st.lists(
    st.builds(Change, st.sampled_from(KINDS), st.integers(0, 31), PART, PART, st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


# ---------------------------------------------------------------- the test
@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as worker:
        yield worker


@pytest.mark.parametrize("name", READERS)
def test_changed_bytes(name: str, tmp_path: Path, worker: Worker) -> None:
    base = tmp_path / "base"
    base.mkdir()
    location = READERS[name](base)
    files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())
    content = {path: (base / path).read_bytes() for path in files}
    numbers, seen = count(), Counter[str]()
    variants = [other for other in READERS if _reader(other) == _reader(name)]
    deadline = time.monotonic() + SECONDS / len(variants)

    whole = worker.call(["read", f"{base}/{location}"])
    assert (whole.code, whole.error) == (0, "")

    def attempt(changes: list[Change], run: bool) -> None:
        # HDF5 may keep a damaged file open, so no name is used twice.
        folder = tmp_path / f"{next(numbers)}"
        changed = dict(content)
        for change in changes:
            path = files[change.file % len(files)]
            changed[path] = change.apply(changed[path])
        for path, data in changed.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        target = [str(folder / "out.npy")] if run else []
        outcome = worker.call(["read", f"{folder}/{location}", *target], timeout=30)
        seen[outcome.error or "data"] += 1
        assert outcome.code in (0, 1), outcome.document
        assert outcome.error != "untyped", outcome.document["error"]["message"]
        if outcome.error:
            assert "\n" not in outcome.document["error"]["message"]
        shutil.rmtree(folder)

    for rounds in count(1):
        fuzz = settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )(given(CHANGES, st.sampled_from([False] * 7 + [True]))(attempt))
        seed(int.from_bytes(os.urandom(8), "little"))(fuzz)()
        if time.monotonic() > deadline:
            print(f"{name}: {sum(seen.values())} changed arrays in {rounds} rounds: {dict(seen)}")
            break
    assert sum(seen.values()) >= ROUND // 2
