"""MINC: real files come back as they were for other programs, geometry survives, broken files give one clear error."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest

import reblock
from reblock.errors import ReblockError, UsageError
from reblock.testing.arrays import noise

DATA = Path(nibabel.__file__).parent / "tests" / "data"
FIRST = ("minc1_1_scale.mnc", "minc1_4d.mnc", "tiny.mnc", "minc1-no-att.mnc")
SECOND = ("minc2_1_scale.mnc", "minc2_4d.mnc", "small.mnc", "minc2-no-att.mnc", "minc2-4d-d.mnc")
needs_minc = pytest.mark.skipif(shutil.which("mincinfo") is None, reason="mincinfo and mincstats are not installed")


def stated(path: Path) -> str:
    """What mincinfo says of a file, its name aside."""
    said = subprocess.run(["mincinfo", path], capture_output=True, text=True, check=True).stdout
    return "\n".join(said.splitlines()[1:])


def numbers(path: Path) -> list[float]:
    """Minimum, maximum and mean of the real values."""
    words = ["mincstats", "-quiet", "-min", "-max", "-mean", path]
    return [float(word) for word in subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()]


# ---------------------------------------------------------------- real files
@needs_minc
@pytest.mark.parametrize("between", [None, "x.zarr", "x.h5"])
@pytest.mark.parametrize("name", [*FIRST, *SECOND])
def test_real_files_come_back(name: str, between: str | None, tmp_path: Path) -> None:
    source, before = DATA / name, reblock.open(DATA / name).attributes
    if between is not None:
        reblock.repartition(source, tmp_path / between)
        source = tmp_path / between
    reblock.repartition(source, tmp_path / "y.mnc")
    assert reblock.verify(DATA / name, tmp_path / "y.mnc").equal
    assert reblock.verify(DATA / name, tmp_path / "y.mnc", reader="library").equal
    one, other = nibabel.load(DATA / name), nibabel.load(tmp_path / "y.mnc")
    assert np.array_equal(one.get_fdata(), other.get_fdata())
    assert np.array_equal(one.affine, other.affine)
    assert stated(tmp_path / "y.mnc") == stated(DATA / name)
    assert numbers(tmp_path / "y.mnc") == numbers(DATA / name)
    after = reblock.open(tmp_path / "y.mnc").attributes
    assert all(np.array_equal(after[key], value) for key, value in before.items())


def test_a_length_that_lies_is_named(tmp_path: Path) -> None:
    report = reblock.repartition(DATA / "minc2_baddim.mnc", tmp_path / "y.mnc")
    assert any("xspace:length is 642, the image has 10" in note for note in report.notes)
    with h5py.File(tmp_path / "y.mnc") as file:
        assert file["minc-2.0/dimensions/xspace"].attrs["length"] == 10


@pytest.mark.parametrize("name", ["tiny.mnc", "small.mnc"])
def test_regions_are_stored_values(name: str) -> None:
    array = reblock.open(DATA / name)
    assert array.axes == ("zspace", "yspace", "xspace")
    if name == "small.mnc":
        with h5py.File(DATA / name) as file:
            assert (array[2:9, :, 3] == file["minc-2.0/image/0/image"][2:9, :, 3]).all()
    assert array.attributes["image-min"].shape == (array.shape[0],)


# ---------------------------------------------------------------- new files
@needs_minc
@pytest.mark.parametrize("codec", [None, "gzip:4", "shuffle+gzip:1"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", ">u2", "<i4", "<f4", ">f8"])
def test_new_files_mean_what_they_store(dtype: str, codec: str | None, tmp_path: Path) -> None:
    kind = np.dtype(dtype)
    values = noise((6, 7, 8), dtype) if kind.kind != "f" else np.arange(336).reshape(6, 7, 8).astype(dtype) / 7
    np.save(tmp_path / "x.npy", values)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "x.mnc", chunks=(2, 7, 4), codec=codec)
    assert (nibabel.load(tmp_path / "x.mnc").get_fdata() == values).all()
    exact = values.astype(np.float64)
    assert np.allclose(numbers(tmp_path / "x.mnc"), [exact.min(), exact.max(), exact.mean()])
    assert "zspace                      6            1            0" in stated(tmp_path / "x.mnc")
    assert reblock.verify(tmp_path / "x.npy", tmp_path / "x.mnc").equal


@needs_minc
@pytest.mark.parametrize("shape", [(5,), (4, 5), (3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 5, 3)])
def test_every_number_of_axes(shape: tuple[int, ...], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", noise(shape, "<i2"))
    reblock.repartition(tmp_path / "x.npy", tmp_path / "x.mnc")
    assert f"{shape[0]}" in stated(tmp_path / "x.mnc")
    assert reblock.open(tmp_path / "x.mnc").shape == shape


@pytest.mark.parametrize(("dtype", "advice"), [("?", "uint8"), ("<i8", "int32"), ("<c8", "zarr"), ("<f2", "float32")])
def test_types_that_minc_lacks_are_named(dtype: str, advice: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 4, 4), dtype))
    with pytest.raises(UsageError, match=f"MINC cannot hold.*{advice}"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "x.mnc")


def test_attributes_of_others_are_kept(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 4, 4), "i2"))
    reblock.repartition(tmp_path / "x.npy", tmp_path / "x.zarr")
    import zarr

    zarr.open_array(tmp_path / "x.zarr").attrs.update({"title": "Überblick", "study:modality": "MRI__", "n": 3})
    reblock.repartition(tmp_path / "x.zarr", tmp_path / "x.mnc")
    with h5py.File(tmp_path / "x.mnc") as file:
        assert file["minc-2.0"].attrs["title"].decode() == "Überblick"
        assert file["minc-2.0/info/study"].attrs["modality"] == b"MRI__"
    assert reblock.open(tmp_path / "x.mnc").attributes["n"] == 3


# ---------------------------------------------------------------- geometry
@needs_minc
@pytest.mark.parametrize("between", [None, "x.zarr"])
def test_a_crop_moves_starts_and_cuts_ranges(between: str | None, tmp_path: Path) -> None:
    source = DATA / "small.mnc"
    if between is not None:
        reblock.repartition(source, tmp_path / between)
        source = tmp_path / between
    reblock.repartition(source, tmp_path / "y.mnc", region="3:9,:,5:20")
    one, other = nibabel.load(DATA / "small.mnc"), nibabel.load(tmp_path / "y.mnc")
    assert np.array_equal(other.get_fdata(), one.get_fdata()[3:9, :, 5:20])
    assert np.allclose(other.affine @ [0, 0, 0, 1], one.affine @ [3, 0, 5, 1])
    assert "zspace                      6            9          -45" in stated(tmp_path / "y.mnc")
    words = ["mincreshape", "-quiet", "-start", "3,0,5", "-count", "6,28,15", DATA / "small.mnc", tmp_path / "z.mnc"]
    subprocess.run(words, check=True, capture_output=True)
    assert numbers(tmp_path / "y.mnc") == pytest.approx(numbers(tmp_path / "z.mnc"), rel=1e-3)


def test_ranges_of_slices_stay_with_the_slowest_axes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"image-min is along zspace.*transpose"):
        reblock.repartition(DATA / "small.mnc", tmp_path / "y.mnc", transpose=(2, 1, 0))
    reblock.repartition(DATA / "minc2_1_scale.mnc", tmp_path / "y.mnc", transpose=(2, 1, 0))
    one, other = nibabel.load(DATA / "minc2_1_scale.mnc"), nibabel.load(tmp_path / "y.mnc")
    assert np.array_equal(other.get_fdata(), one.get_fdata().transpose(2, 1, 0))
    assert np.allclose(other.affine @ [1, 2, 3, 1], one.affine @ [3, 2, 1, 1])


@pytest.mark.parametrize("transpose", [None, (2, 1, 0)])
def test_to_nifti(transpose: Any, tmp_path: Path) -> None:
    reblock.repartition(DATA / "tiny.mnc", tmp_path / "y.nii", transpose=transpose, region="2:,1:,3:")
    one, other = nibabel.load(DATA / "tiny.mnc"), nibabel.load(tmp_path / "y.nii")
    here = np.array([1, 2, 3])
    there = np.append(here[list(transpose)] if transpose else here, 1)
    assert np.allclose(other.affine @ there, one.affine @ [3, 3, 6, 1])


@needs_minc
@pytest.mark.parametrize("name", ["anatomical.nii", "functional.nii", "example4d.nii.gz"])
def test_from_nifti_and_back(name: str, tmp_path: Path) -> None:
    reblock.repartition(DATA / name, tmp_path / "x.mnc")
    reblock.repartition(tmp_path / "x.mnc", tmp_path / "y.nii")
    one, two, three = (nibabel.load(path) for path in (DATA / name, tmp_path / "x.mnc", tmp_path / "y.nii"))
    assert three.header == one.header
    assert np.allclose(three.affine, one.affine, atol=1e-4)
    if len(one.shape) == 3:
        assert np.allclose(two.affine, one.affine, atol=1e-3)
    assert "space" in stated(tmp_path / "x.mnc")
    assert reblock.verify(DATA / name, tmp_path / "y.nii").equal


# ---------------------------------------------------------------- broken files
def _second(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        shutil.copy(DATA / "small.mnc", path)
        with h5py.File(path, "r+") as file:
            change(file["minc-2.0"])

    return make


def _no_range(root: Any) -> None:
    del root["image/0/image-min"]


def _no_dimension(root: Any) -> None:
    del root["dimensions/yspace"]


def _other_order(root: Any) -> None:
    root["image/0/image"].attrs["dimorder"] = np.bytes_("zspace,yspace")


def _twice(root: Any) -> None:
    root["image/0/image"].attrs["dimorder"] = np.bytes_("zspace,zspace,xspace")


def _no_image(root: Any) -> None:
    del root["image/0/image"]


def _short_range(root: Any) -> None:
    del root["image/0/image-max"]
    root["image/0/image-max"] = np.zeros(3)


def _text_range(root: Any) -> None:
    del root["image/0/image-max"]
    root["image/0/image-max"] = "much"


def _elsewhere(root: Any) -> None:
    del root["image/0/image"]
    root["image/0/image"] = h5py.ExternalLink("other.h5", "/data")


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no range": (_second(_no_range), "image-min is missing"),
    "no dimension": (_second(_no_dimension), "yspace"),
    "order": (_second(_other_order), "names 2 axes"),
    "twice": (_second(_twice), "twice"),
    "no image": (_second(_no_image), "no dataset minc-2.0/image/0/image"),
    "short range": (_second(_short_range), "image-max has shape"),
    "text range": (_second(_text_range), "image-max is missing, or holds no numbers"),
    "elsewhere": (_second(_elsewhere), "image"),
    "cut 2": (lambda path: path.write_bytes((DATA / "small.mnc").read_bytes()[:20_000]), "x.mnc"),
    "cut 1": (lambda path: path.write_bytes((DATA / "tiny.mnc").read_bytes()[:-2000]), "truncated|beyond"),
    "head 1": (lambda path: path.write_bytes((DATA / "tiny.mnc").read_bytes()[:900]), "header"),
    "no image 1": (
        lambda path: path.write_bytes((DATA / "tiny.mnc").read_bytes().replace(b"\x05image\0\0\0", b"\x05imagf\0\0\0")),
        "image",
    ),
    "empty": (lambda path: path.write_bytes(b""), "x.mnc"),
    "text": (lambda path: path.write_bytes(b"hello " * 100), "x.mnc"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name: str, tmp_path: Path) -> None:
    make, message = BROKEN[name]
    make(tmp_path / "x.mnc")
    with pytest.raises(ReblockError, match=message) as caught:
        reblock.repartition(tmp_path / "x.mnc", tmp_path / "y.zarr")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["x.mnc"]


def test_only_files_of_minc_are_replaced(tmp_path: Path) -> None:
    shutil.copy(DATA / "small.mnc", tmp_path / "x.mnc")
    reblock.repartition(DATA / "minc2_4d.mnc", tmp_path / "x.mnc", overwrite=True)
    assert reblock.open(tmp_path / "x.mnc").ndim == 4
    with h5py.File(tmp_path / "x.mnc", "r+") as file:
        file["thesis"] = np.zeros(3)
    with pytest.raises(ReblockError, match="thesis"):
        reblock.repartition(DATA / "minc2_4d.mnc", tmp_path / "x.mnc", overwrite=True)


def test_other_files_are_still_those_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["data"] = np.zeros(3)
    assert reblock.open(tmp_path / "x.h5").store.format == "hdf5"
    assert reblock.open(f"{DATA}/small.mnc::minc-2.0/image/0/image-max", format="hdf5").shape == (18,)
