"""NIfTI: real files come back as they were, geometry survives crops, and broken files give one clear error."""

from __future__ import annotations

import filecmp
import gzip
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

import reblock
from reblock.errors import CorruptError, ExternalError, ReblockError, StorageError, UsageError
from reblock.model.schema import Schema
from reblock.storage.media.local import LOCAL
from reblock.storage.nifti.format import FORMAT, NiftiGzFormat
from reblock.storage.nifti.inflate import Inflated
from reblock.testing.arrays import noise
from reblock.testing.contract import FormatContract

DATA = Path(nibabel.__file__).parent / "tests" / "data"
PLAIN = ("anatomical.nii", "functional.nii", "resampled_anat_moved.nii", "row_major.dconn.nii")
COMPRESSED = ("example4d.nii.gz", "example_nifti2.nii.gz", "standard.nii.gz")
JUDGE = shutil.which("nifti_tool")


class TestThinLayers(FormatContract):
    """The contract again, with layers of a few elements, so that files have many members."""

    format = NiftiGzFormat(layer_bytes=64)

    @pytest.mark.parametrize("chunks", [((3, 3, 4), 4)])
    def test_irregular_chunks(self, chunks: Any) -> None:  # type: ignore[override]
        schema = Schema((10, 7), np.dtype("<u2"), chunks)
        assert any("are ignored" in note for note in self.adapt(schema, {"chunks"}).notes)

    @pytest.mark.parametrize("codec", ["gzip:1"])
    def test_missing_objects(self, root: str, codec: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3)))
        with pytest.raises(StorageError, match="never written"):
            self.write(root, schema, noise((9, 7), "<i4"), skip=[(0, 1)])


def stored(path: Path) -> Any:
    """The elements of a file as nibabel reads them, without scaling."""
    image: Any = nibabel.load(path)
    return np.asarray(image.dataobj.get_unscaled())


def header(path: Path) -> bytes:
    """Everything before the elements."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    image: Any = nibabel.load(path)
    return data[: int(image.dataobj.offset)]


# ---------------------------------------------------------------- real files
@pytest.mark.parametrize("between", ["x.zarr", "x.h5", "blocks/", "x.nii.gz"])
@pytest.mark.parametrize("name", PLAIN)
def test_real_files_come_back_byte_by_byte(name: str, between: str, tmp_path: Path) -> None:
    reblock.repartition(DATA / name, f"{tmp_path}/{between}", memory="64MiB")
    reblock.repartition(f"{tmp_path}/{between}", tmp_path / "y.nii", memory="64MiB")
    assert filecmp.cmp(DATA / name, tmp_path / "y.nii", shallow=False)
    assert reblock.verify(DATA / name, f"{tmp_path}/{between}").equal


@pytest.mark.parametrize("between", ["x.zarr", "x.h5", "x.nii"])
@pytest.mark.parametrize("name", COMPRESSED)
def test_real_compressed_files_come_back(name: str, between: str, tmp_path: Path) -> None:
    reblock.repartition(DATA / name, tmp_path / between, memory="64MiB")
    reblock.repartition(tmp_path / between, tmp_path / "y.nii.gz", memory="64MiB")
    assert stored(tmp_path / "y.nii.gz").tobytes() == stored(DATA / name).tobytes()
    assert header(tmp_path / "y.nii.gz") == header(DATA / name)


@pytest.mark.skipif(JUDGE is None, reason="nifti_tool is not installed")
@pytest.mark.parametrize("name", ["y.nii", "y.nii.gz"])
@pytest.mark.parametrize("dtype", ["<i2", ">f4", "u1", "<c16"])
def test_another_program_finds_new_headers_right(name: str, dtype: str, tmp_path: Path) -> None:
    values = noise((7, 5, 4, 3), dtype)
    np.save(tmp_path / "x.npy", values)
    report = reblock.repartition(tmp_path / "x.npy", tmp_path / name)
    assert not any("affine" in note for note in report.notes)
    said = subprocess.run(
        [str(JUDGE), "-check_hdr", "-check_nim", "-infiles", tmp_path / name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "GOOD" in said.stdout
    assert "BAD" not in said.stdout
    assert stored(tmp_path / name).tobytes() == values.tobytes()
    assert reblock.open(tmp_path / name).attributes.keys() == {"nifti_header"}
    assert reblock.verify(tmp_path / "x.npy", tmp_path / name, reader="library").equal


def test_slope_and_intercept_are_kept_and_not_applied(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(np.arange(24, dtype=np.int16).reshape(2, 3, 4), np.eye(4))
    image.header.set_slope_inter(0.5, 10)
    nibabel.save(image, tmp_path / "x.nii")
    assert reblock.open(tmp_path / "x.nii")[0, 1, 2] == stored(tmp_path / "x.nii")[0, 1, 2]
    reblock.repartition(tmp_path / "x.nii", tmp_path / "x.zarr")
    reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.nii")
    scaled = [np.asarray(nibabel.load(tmp_path / name).dataobj) for name in ("x.nii", "y.nii")]
    assert (scaled[0] == scaled[1]).all()
    assert scaled[0].max() == 21.5


@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz", "x.img"])
@pytest.mark.parametrize("version", [1, 2])
def test_regions_of_files_and_pairs(name: str, version: int, tmp_path: Path) -> None:
    kinds = {(1, "x.img"): nibabel.Nifti1Pair, (2, "x.img"): nibabel.Nifti2Pair}
    kind = kinds.get((version, name), nibabel.Nifti1Image if version == 1 else nibabel.Nifti2Image)
    values = noise((9, 8, 7, 3), "<f4")
    nibabel.save(kind(values, np.diag([2, 3, 4, 1])), tmp_path / name)
    for path in [tmp_path / name, *([tmp_path / "x.hdr"] if name == "x.img" else [])]:
        array = reblock.open(path)
        assert (array.shape, array.axes) == ((9, 8, 7, 3), ("x", "y", "z", "t"))
        assert array[2:5, :, 3, 1:].tobytes() == values[2:5, :, 3, 1:].tobytes()
        assert np.allclose(array.attributes["affine"], np.diag([2, 3, 4, 1]))
    reblock.repartition(tmp_path / name, tmp_path / "y.nii", overwrite=True)
    assert (nibabel.load(tmp_path / "y.nii").affine == np.diag([2, 3, 4, 1])).all()


def test_the_image_of_a_pair_may_not_be_a_link_to_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    nibabel.save(nibabel.Nifti1Pair(np.zeros((3, 3, 3), np.int16), np.eye(4)), tmp_path / "a" / "x.img")
    (tmp_path / "a" / "x.img").rename(tmp_path / "b" / "secret")
    (tmp_path / "a" / "x.img").symlink_to(tmp_path / "b" / "secret")
    with pytest.raises(ExternalError, match="secret"):
        reblock.open(tmp_path / "a" / "x.hdr")
    assert reblock.open(tmp_path / "a" / "x.hdr", allow_external=[tmp_path / "b"]).shape == (3, 3, 3)


def test_pairs_are_not_written(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 3)))
    with pytest.raises(UsageError, match=r"write a \.nii file"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y.hdr", to_format="nifti")


# ---------------------------------------------------------------- types and shapes
@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_colours_are_bytes(name: str, tmp_path: Path) -> None:
    colours = noise((5, 4, 3, 3), "u1").view([("R", "u1"), ("G", "u1"), ("B", "u1")])[..., 0]
    nibabel.save(nibabel.Nifti1Image(colours, np.eye(4)), tmp_path / name)
    array = reblock.open(tmp_path / name)
    assert (array.dtype, array.shape) == (np.dtype("V3"), (5, 4, 3))
    reblock.repartition(tmp_path / name, tmp_path / "y.h5")
    reblock.repartition(tmp_path / "y.h5", tmp_path / "y.nii")
    assert any("RGB" in note for note in array.store.schema.notes)
    assert stored(tmp_path / "y.nii").tobytes() == stored(tmp_path / name).tobytes()
    assert reblock.verify(tmp_path / name, tmp_path / "y.nii", reader="library").equal


@pytest.mark.parametrize(("dtype", "advice"), [("?", "uint8"), ("f2", "float32"), ("g", "float32"), ("S3", "zarr")])
def test_types_that_nifti_lacks_are_named(dtype: str, advice: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 4), dtype))
    with pytest.raises(UsageError, match=f"NIfTI cannot hold.*{advice}"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "x.nii")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy"]


def test_long_axes_need_the_second_version(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(40_000, dtype=np.int16).reshape(1, 40_000))
    reblock.repartition(tmp_path / "x.npy", tmp_path / "x.nii")
    image = nibabel.load(tmp_path / "x.nii")
    assert isinstance(image, nibabel.Nifti2Image)
    assert (stored(tmp_path / "x.nii") == np.load(tmp_path / "x.npy")).all()


def test_a_header_grows_into_the_second_version(tmp_path: Path) -> None:
    schema = FORMAT.open(str(DATA / "anatomical.nii"), "").schema
    wide = FORMAT.adapt(Schema((40_000, 2), np.dtype("<i2"), (10, 2), attributes=schema.attributes), ())
    assert any("NIfTI-2" in note for note in wide.notes)
    assert np.allclose(wide.attributes["affine"], nibabel.load(DATA / "anatomical.nii").affine)


@pytest.mark.parametrize("shape", [(4, 0, 3), (1,), (1, 1, 1, 1, 1, 1, 2)])
@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_odd_shapes(shape: tuple[int, ...], name: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", noise(shape, "<i4"))
    reblock.repartition(tmp_path / "x.npy", tmp_path / name)
    assert reblock.open(tmp_path / name).shape == shape
    assert reblock.verify(tmp_path / "x.npy", tmp_path / name).equal


def test_no_axes_and_eight_are_refused(tmp_path: Path) -> None:
    for shape in ((), (1,) * 8):
        np.save(tmp_path / "x.npy", np.zeros(shape))
        with pytest.raises(UsageError, match="1 to 7 axes"):
            reblock.repartition(tmp_path / "x.npy", tmp_path / "x.nii")


# ---------------------------------------------------------------- geometry
@pytest.mark.parametrize("between", [None, "x.zarr"])
def test_a_crop_moves_the_origin(between: str | None, tmp_path: Path) -> None:
    source, region = DATA / "anatomical.nii", "3:20,:,5:"
    if between:
        reblock.repartition(source, tmp_path / between)
        source = tmp_path / between
    reblock.repartition(source, tmp_path / "y.nii", region=region)
    wanted: Any = nibabel.load(DATA / "anatomical.nii")
    found = nibabel.load(tmp_path / "y.nii")
    assert np.allclose(found.affine, wanted.slicer[3:20, :, 5:].affine, atol=1e-4)
    assert np.allclose(found.header.get_zooms(), wanted.header.get_zooms())


def test_a_transposition_turns_the_affine(tmp_path: Path) -> None:
    reblock.repartition(DATA / "functional.nii", tmp_path / "y.nii", transpose=(2, 0, 1, 3))
    before, after = nibabel.load(DATA / "functional.nii").affine, nibabel.load(tmp_path / "y.nii").affine
    assert np.allclose(after @ [1, 4, 2, 1], before @ [4, 2, 1, 1], atol=1e-4)
    report = reblock.repartition(DATA / "functional.nii", tmp_path / "z.nii", transpose=(3, 2, 0, 1))
    assert any("place in space is not kept" in note for note in report.notes)


def test_axes_in_the_order_of_other_formats_are_noticed(tmp_path: Path) -> None:
    schema = Schema((3, 4, 5), np.dtype("i2"), (3, 4, 5), axes=("z", "y", "x"))
    assert any("2,1,0" in note for note in FORMAT.adapt(schema, ()).notes)


# ---------------------------------------------------------------- broken files
def _broken(**fields: Any) -> bytes:
    made: Any = nibabel.Nifti1Header()
    made["dim"] = [3, 4, 5, 6, 1, 1, 1, 1]
    made["datatype"], made["bitpix"], made["vox_offset"], made["magic"] = 4, 16, 352, b"n+1"
    for name, value in fields.items():
        made[name] = value
    return bytes(made.binaryblock) + bytes(4 + 240)


BROKEN = {
    "negative": (_broken(dim=[3, 4, -5, 6, 1, 1, 1, 1]), "negative"),
    "axes 0": (_broken(dim=[0, 4, 5, 6, 1, 1, 1, 1]), "1 to 7"),
    "lost length": (_broken(dim=[3, -1, 1, 1, 1, 1, 1, 1]), "negative"),
    "bits": (_broken(bitpix=8), "8 bits per element"),
    "type": (_broken(datatype=3), "data type 3"),
    "binary": (_broken(datatype=1, bitpix=1), "data type 1"),
    "nan": (_broken(vox_offset=np.nan), "begin at byte nan"),
    "huge": (_broken(vox_offset=1e30), "begin at byte 1.0000"),
    "before": (_broken(vox_offset=-100), "begin at byte -100"),
    "inside": (_broken(vox_offset=16), "begin at byte 16"),
    "fraction": (_broken(vox_offset=352.5), "begin at byte 352.5"),
    "beyond": (_broken(vox_offset=4096), "its header promises"),
    "short": (_broken()[:-1], "its header promises"),
    "long": (_broken(dim=[7, *[32_000] * 7]), "limit"),
    "head only": (_broken()[:347], "not a NIfTI file"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_broken_files(name: str, ending: str, tmp_path: Path) -> None:
    data, message = BROKEN[name]
    source = tmp_path / f"x{ending}"
    source.write_bytes(gzip.compress(data) if ending == ".nii.gz" else data)
    message = "promise" if "promise" in message else message
    with pytest.raises(ReblockError, match=message) as caught:
        reblock.repartition(source, tmp_path / "y.zarr")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.parametrize("kind", ["truncated", "flipped", "sum", "no end"])
def test_damaged_streams(kind: str, tmp_path: Path) -> None:
    whole = (DATA / "example4d.nii.gz").read_bytes()
    middle = len(whole) // 2
    data = {
        "truncated": whole[:middle],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 16]) + whole[middle + 1 :],
        "sum": whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:],
        "no end": whole[:-12],
    }[kind]
    (tmp_path / "x.nii.gz").write_bytes(data)
    with pytest.raises(CorruptError, match=r"x\.nii\.gz: the gzip stream"):
        reblock.repartition(tmp_path / "x.nii.gz", tmp_path / "y.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["x.nii.gz"]


def test_a_promise_that_gzip_cannot_keep(tmp_path: Path) -> None:
    (tmp_path / "x.nii.gz").write_bytes(gzip.compress(_broken(dim=[3, 30_000, 30_000, 1000, 1, 1, 1, 1])))
    with pytest.raises(CorruptError, match="cannot hold the 1,800,000,000,352 bytes"):
        reblock.open(tmp_path / "x.nii.gz")


def test_a_bomb_of_extensions_is_bounded(tmp_path: Path) -> None:
    encoder = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = encoder.compress(_broken(vox_offset=float(1 << 26))) + encoder.compress(bytes(1 << 26)) + encoder.flush()
    (tmp_path / "x.nii.gz").write_bytes(data)
    array = reblock.open(tmp_path / "x.nii.gz")
    assert any("extensions are not kept" in note for note in array.store.schema.notes)
    assert len(array.attributes["nifti_header"]) < 1000


# ---------------------------------------------------------------- compressed files
def test_reading_in_any_order_through_the_index(tmp_path: Path) -> None:
    values = np.arange(12 << 20, dtype=np.int32).tobytes()
    (tmp_path / "x.gz").write_bytes(
        b"".join(gzip.compress(values[k : k + (9 << 20)], 1) for k in range(0, 48 << 20, 9 << 20))
    )
    view = Inflated(LOCAL, str(tmp_path / "x.gz"), len(values))
    for offset in (40 << 20, 5, (9 << 20) - 3, 47 << 20, 0):
        found = bytearray(1 << 20)
        view.read(memoryview(found), offset)
        assert bytes(found) == values[offset : offset + (1 << 20)]
    view.close()


def test_a_level_may_be_chosen_and_is_found_again(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000, dtype=np.int16).reshape(10, 100))
    reblock.repartition(tmp_path / "x.npy", tmp_path / "x.nii.gz", codec="gzip:1")
    assert str(reblock.open(tmp_path / "x.nii.gz").store.schema.codec) == "gzip:1"
    with pytest.raises(UsageError, match="gzip:LEVEL"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y.nii.gz", codec="zstd:1")
    with pytest.raises(UsageError, match=r"end the name in \.nii\.gz"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y.nii", codec="gzip:1")


def test_the_plan_says_how_a_stream_is_read(tmp_path: Path) -> None:
    plan = reblock.plan(DATA / "example4d.nii.gz", tmp_path / "y.zarr", memory="16MiB")
    assert "through an index" in plan.explain()
    assert plan.cost.peak_bytes <= 16 << 20
