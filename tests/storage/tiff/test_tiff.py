"""TIFF files of others are read as tifffile reads them, and tifffile and libtiff read ours."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import FormatError, UsageError
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.schema import Schema
from reblock.storage import registry
from reblock.storage.tiff.geometry import TiffPages
from reblock.storage.tiff.structure import RunOfBytes
from reblock.storage.tiff.writer import NewTiffStore
from reblock.testing.arrays import noise

tifffile = pytest.importorskip("tifffile")
STACK = noise((4, 3, 40, 50), "<u2")


def write(path: Path, data: Any, **options: Any) -> None:
    tifffile.imwrite(path, data, **{"photometric": "minisblack", **options})


def opened(path: Path) -> Any:
    return reblock.open(path).store


# ---------------------------------------------------------------- files of others
@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bigtiff": True},
        {"rowsperstrip": 7},
        {"tile": (16, 32)},
        *({"compression": name, "rowsperstrip": 7} for name in ("zlib", "lzw", "packbits", "lzma", "zstd")),
        {"compression": "zlib", "predictor": True, "tile": (32, 16)},
        {"compression": "lzw", "predictor": True},
    ],
    ids=lambda options: "-".join(f"{key}={value}" for key, value in options.items()) or "plain",
)
def test_pages_are_read(tmp_path: Path, options: dict[str, Any], byteorder: str) -> None:
    path = tmp_path / "x.tif"
    for dtype in ("u2", "f4", "i4"):
        data = noise(STACK.shape, f"{byteorder}{dtype}")
        write(path, data, byteorder=byteorder, **options)
        found = reblock.open(path)
        assert found.dtype.newbyteorder("=") == np.dtype(dtype)
        assert found[...].tobytes() == data.astype(found.dtype).tobytes()
        assert found[1:3, 2, 5:30, 7].tobytes() == data.astype(found.dtype)[1:3, 2, 5:30, 7].tobytes()


@pytest.mark.parametrize("planarconfig", ["contig", "separate"])
@pytest.mark.parametrize("compression", [None, "zlib", "jpeg"])
def test_samples_are_an_axis(tmp_path: Path, planarconfig: str, compression: str | None) -> None:
    shape = (40, 50, 3) if planarconfig == "contig" else (3, 40, 50)
    data = np.indices(shape).sum(0).astype("u1")
    path = tmp_path / "x.tif"
    options = {"photometric": "rgb", "planarconfig": planarconfig, "tile": (16, 16)}
    write(path, data, compression=compression, **options)
    found = reblock.open(path)
    assert found.axes == (("Y", "X", "S") if planarconfig == "contig" else ("S", "Y", "X"))
    assert np.array_equal(found[...], tifffile.imread(path))
    assert found.chunks == ((16, 16, 3) if planarconfig == "contig" else (1, 16, 16))


def test_bits_are_unpacked(tmp_path: Path) -> None:
    data = noise((30, 41), "|b1")
    write(tmp_path / "x.tif", data)
    assert np.array_equal(reblock.open(tmp_path / "x.tif")[...], data)


def test_raw_pages_are_one_run_of_bytes(tmp_path: Path) -> None:
    write(tmp_path / "one.tif", STACK, rowsperstrip=7)
    assert opened(tmp_path / "one.tif").layout == Layout.raw(
        STACK.dtype, reblock.open(tmp_path / "one.tif").layout.objects
    )
    assert opened(tmp_path / "one.tif").structure.run is RunOfBytes.ARRAY
    with tifffile.TiffWriter(tmp_path / "pages.tif") as file:
        for page in STACK.reshape(-1, 40, 50):
            file.write(page, contiguous=False, metadata=None, photometric="minisblack")
    store = opened(tmp_path / "pages.tif")
    assert store.structure.run is RunOfBytes.PAGE
    assert store.layout.objects.counts == (12, 1, 1)
    assert store.schema.axes == ("I", "Y", "X")


@pytest.mark.parametrize("kind", ["ome", "imagej"])
def test_names_of_axes_are_kept(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("x.ome.tif" if kind == "ome" else "x.tif")
    write(path, STACK, metadata={"axes": "ZCYX" if kind == "imagej" else "TCYX"}, **{kind: True})
    found = reblock.open(path)
    assert found.axes == (("Z", "C", "Y", "X") if kind == "imagej" else ("T", "C", "Y", "X"))
    assert found.store.format == ("ometiff" if kind == "ome" else "tiff")
    assert np.array_equal(found[...], STACK)


def test_series_and_levels_are_named_by_number(tmp_path: Path) -> None:
    path = tmp_path / "x.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as file:
        file.write(STACK[0, 0], subifds=1, photometric="minisblack")
        file.write(STACK[0, 0, ::2, ::2], subfiletype=1, photometric="minisblack")
        file.write(STACK[1], photometric="minisblack")
    with pytest.raises(FormatError, match=r"2 arrays; name one of them after '::': ::0 \(40, 50\) uint16, ::1"):
        reblock.open(path)
    assert np.array_equal(reblock.open(f"{path}::0")[...], STACK[0, 0])
    assert np.array_equal(reblock.open(f"{path}::0/1")[...], STACK[0, 0, ::2, ::2])
    assert np.array_equal(reblock.open(f"{path}::1")[...], STACK[1])
    with pytest.raises(FormatError, match="no array '2'"):
        reblock.open(f"{path}::2")


def test_tags_are_attributes(tmp_path: Path) -> None:
    tags = {"software": "s", "datetime": "2026:01:02 03:04:05", "resolution": (300, 72), "description": "text"}
    write(tmp_path / "x.tif", STACK[0, 0], metadata=None, extratags=[(33550, 12, 3, (1.5, 2.5, 0.0), True)], **tags)
    found = reblock.open(tmp_path / "x.tif").attributes
    assert found["Software"] == "s"
    assert found["ModelPixelScaleTag"] == [1.5, 2.5, 0.0]
    assert found["ImageDescription"] == "text"
    reblock.repartition(tmp_path / "x.tif", tmp_path / "y.tif")
    assert reblock.open(tmp_path / "y.tif").attributes == found
    with tifffile.TiffFile(tmp_path / "y.tif") as file:
        tags = file.pages[0].tags
        assert tags["Software"].value == "s"
        assert tags["ModelPixelScaleTag"].value == (1.5, 2.5, 0.0)
        assert tags["XResolution"].value == (300, 1)


def test_many_pages_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.tif"
    np.save(tmp_path / "x.npy", noise((5_000, 4, 5), "u1"))
    reblock.repartition(tmp_path / "x.npy", path)
    program = (
        "import resource, sys, reblock, tifffile; before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "store = reblock.open(sys.argv[1]).store; print(store.layout.shape);"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    shape, mebibytes = done.stdout.splitlines()
    assert shape == "(5000, 4, 5)"
    assert int(mebibytes) < 32
    assert len(pickle.dumps(opened(path))) < 1 << 12


# ---------------------------------------------------------------- ours
JUDGED: dict[str, dict[str, Any]] = {
    "x.tif": {},
    "tiles.tif": {"chunks": (1, 1, 16, 32)},
    "strips.tif": {"chunks": (1, 1, 7, -1), "codec": "lzw"},
    "zlib.tif": {"chunks": (1, 1, 32, 16), "codec": "predictor+zlib:4"},
    "zstd.tif": {"codec": "zstd:3"},
    "x.ome.tif": {},
    "zlib.ome.tiff": {"codec": "zlib:4"},
}


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<f4"])
def test_others_read_ours(tmp_path: Path, name: str, dtype: str) -> None:
    data = noise(STACK.shape, dtype)
    np.save(tmp_path / "x.npy", data)
    path = tmp_path / name
    reblock.repartition(tmp_path / "x.npy", path, **JUDGED[name])
    with tifffile.TiffFile(path) as file:
        (series,) = file.series
        assert series.shape == data.shape
        assert series.kind == ("ome" if "ome" in name else "shaped")
        assert series.asarray().tobytes() == data.astype(data.dtype.newbyteorder("=")).tobytes()
    assert reblock.verify(tmp_path / "x.npy", path).equal
    assert reblock.verify(tmp_path / "x.npy", path, reader="library").equal
    if shutil.which("tiffinfo"):
        judged = subprocess.run(["tiffinfo", "-D", path], capture_output=True, text=True, check=True)
        assert not judged.stderr
        assert judged.stdout.count("Image Width: 50 Image Length: 40") == 12
    else:
        pytest.skip("tiffinfo is not installed (libtiff-tools): tifffile has judged alone")


def test_ome_axes_are_written(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", STACK)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "x.zarr", chunks=(1, 1, 20, 20))
    for axes, letters in ((("T", "C", "Y", "X"), "TCYX"), (("time", "z", "y", "x"), "TZYX"), (None, "CZYX")):
        schema = Schema(STACK.shape, STACK.dtype, (1, 1, 40, 50), axes=axes, attributes={"a": "<&>\u20ac"})
        kind = registry.get("ometiff")
        store = kind.create(str(tmp_path / f"{letters}.ome.tif"), "", kind.adapt(schema, ()))
        store.commit()
        with tifffile.TiffFile(store.location) as file:
            assert (file.series[0].axes, file.series[0].shape) == (letters, STACK.shape)
        found = registry.open(store.location).schema
        assert (found.axes, found.attributes) == (axes, {"a": "<&>\u20ac"})


def test_rgb_stays_rgb(tmp_path: Path) -> None:
    data = noise((2, 40, 50, 3), "u1")
    write(tmp_path / "x.ome.tif", data, photometric="rgb", metadata={"axes": "ZYXS"}, tile=(16, 16), compression="zlib")
    for name in ("y.tif", "y.ome.tif"):
        reblock.repartition(tmp_path / "x.ome.tif", tmp_path / name)
        with tifffile.TiffFile(tmp_path / name) as file:
            page = file.pages[0]
            assert (page.photometric, page.samplesperpixel, page.tile) == (2, 3, (16, 16))
            assert file.series[0].axes == "ZYXS"
            assert np.array_equal(file.series[0].asarray(), data)


@pytest.mark.parametrize(("gibibytes", "big"), [(3, False), (4, True)])
def test_large_files_are_bigtiff(tmp_path: Path, gibibytes: int, big: bool) -> None:
    schema = Schema((gibibytes, 1 << 15, 1 << 15), np.dtype("u1"), (1, 1 << 15, 1 << 15))
    kind = registry.get("tiff")
    store = kind.create(str(tmp_path / "x.tif"), "", kind.adapt(schema, ()))
    with open(tmp_path / "x.tif", "r+b") as file:
        file.seek(16 + 2 * (1 << 30) + 5)
        file.write(b"\7")
    store.commit()
    with tifffile.TiffFile(tmp_path / "x.tif") as found:
        assert found.is_bigtiff is big
        assert found.series[0].shape == schema.shape
    assert reblock.open(tmp_path / "x.tif")[2, 0, 3:8].tolist() == [0, 0, 7, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": (1, 1, 20, 20)}, r"tiles of multiples of 16; 1,1,32,32 are"),
        ({"chunks": (2, 1, 16, 16)}, r"1,1,16,16 are"),
        ({"codec": "blosc:zstd:3"}, r"codec blosc:zstd:3:shuffle is not possible: TIFF has none, zlib"),
        ({"dtype": "?"}, r"TIFF holds integers"),
        ({"shards": (1, 1, 20, 20)}, r"shards"),
        ({"checksum": True}, r"no place for checksums"),
    ],
)
def test_requests_that_tiff_cannot_hold_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    np.save(tmp_path / "x.npy", STACK)
    with pytest.raises(UsageError, match=message):
        reblock.plan(tmp_path / "x.npy", tmp_path / "y.tif", **options)


def test_ome_refuses_other_axes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", noise((1, 1, 1, 2, 3, 4), "u1"))
    with pytest.raises(UsageError, match="at most the axes T, C, Z, Y and X"):
        reblock.plan(tmp_path / "x.npy", tmp_path / "y.ome.tif")


def test_other_ome_files_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path / "x.ome.tif", STACK, metadata={"axes": "TCYX"})
    with tifffile.TiffFile(tmp_path / "x.ome.tif") as file:
        text = file.ome_metadata
    write(tmp_path / "part.ome.tif", STACK[0], description=text.encode(), metadata=None)
    with pytest.raises(FormatError, match="promises 12 planes, the file has 3 pages"):
        reblock.open(tmp_path / "part.ome.tif")


def test_pages_of_a_schema() -> None:
    schema = Schema((5, 40, 50, 3), np.dtype("u1"), (1, 16, 16, 3), axes=("Z", "Y", "X", "S"))
    pages = TiffPages(schema)
    assert (pages.count, pages.size, pages.segment, pages.samples) == (5, (40, 50), (16, 16), 3)
    assert (pages.tiled, pages.per_page, pages.row) == (True, 12, (16, 3))
    assert TiffPages(Schema((), np.dtype("u1"), ())).size == (1, 1)


def test_encoded_segments_are_found_again(tmp_path: Path) -> None:
    """A file that was cut anywhere behind the last checkpoint is continued."""
    kind, path = registry.get("tiff"), str(tmp_path / "x.tif")
    data = noise((64, 64), "<u2")
    schema = kind.adapt(Schema(data.shape, data.dtype, (16, 16), codec=Codec.parse("zlib:1")), {"codec", "chunks"})
    store = kind.create(path, "", schema)
    assert isinstance(store, NewTiffStore)
    tiles = {(y, x): data[16 * y : 16 * y + 16, 16 * x : 16 * x + 16].copy() for y in range(4) for x in range(4)}
    for index in list(tiles)[:7]:
        store.write_unit(index, store.encode(tiles[index].reshape(-1).view(np.uint8)).data)
    store.abort()
    size = os.path.getsize(path)
    for cut in (0, 1, 100, 400):
        os.truncate(path, size - cut)
        again = kind.reopen(path, "", schema)
        found = [extent is not None for extent in again.extents((0, 0), list(tiles), lambda _: b"")]
        assert sum(found) == 7 - (cut > 0), cut
        for index in list(tiles)[sum(found) :]:
            again.write_unit(index, again.encode(tiles[index].reshape(-1).view(np.uint8)).data)
        if cut == 400:
            again.commit()
            assert np.array_equal(tifffile.imread(path), data)
        again.abort()
        os.truncate(path, size)


@pytest.mark.faults
@pytest.mark.parametrize("codec", ["none", "predictor+zlib:1"])
def test_a_killed_run_is_continued(tmp_path: Path, codec: str) -> None:
    np.save(tmp_path / "x.npy", noise((24, 512, 512), "<u2") >> 8)
    words = ["run", "x.npy", "y.tif", "--codec", codec, "--chunks", "1,64,64", "--memory", "3MiB", "--quiet"]
    command = [sys.executable, "-m", "reblock", *words]
    for number in range(20):
        process = subprocess.Popen(command, cwd=tmp_path)
        time.sleep(0.3 + 0.04 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "exists" in done.stderr, done.stderr
    assert np.array_equal(tifffile.imread(tmp_path / "y.tif"), np.load(tmp_path / "x.npy"))
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.tif"]


# ---------------------------------------------------------------- files that resemble each other
def test_a_file_with_the_same_directory_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a stack differ in their elements; whatever else differs is seen."""
    data = noise((5, 40, 50), "<u2")
    for number, plane in enumerate(data):
        write(tmp_path / f"{number}.tif", plane, rowsperstrip=7)
    parsed: list[str] = []
    whole = tifffile.TiffFile

    def counting(*args: Any, **options: Any) -> Any:
        parsed.append(options["name"])
        return whole(*args, **options)

    monkeypatch.setattr(tifffile, "TiffFile", counting)
    array = reblock.open(str(tmp_path / "*.tif"), stack="z")
    assert np.array_equal(array[...], data)
    assert len(parsed) <= 1


@pytest.mark.parametrize("offset", [None, "description", "strip"])
def test_a_file_that_differs_a_little_is_parsed(tmp_path: Path, offset: str | None) -> None:
    """Another text, another place of a strip, or a byte more."""
    data = noise((40, 50), "<u2")
    for name in ("a.tif", "b.tif"):
        write(tmp_path / name, data, description="first", metadata=None, rowsperstrip=20)
    raw = bytearray((tmp_path / "b.tif").read_bytes())
    with tifffile.TiffFile(tmp_path / "b.tif") as tif:
        first, second = tif.pages[0].dataoffsets
        places = tif.pages[0].tags["StripOffsets"].valueoffset
    if offset == "description":
        raw[raw.index(b"first") : raw.index(b"first") + 5] = b"other"
    elif offset == "strip":
        raw[places : places + 8] = second.to_bytes(4, "little") + first.to_bytes(4, "little")
    else:
        raw += b"\0"
    (tmp_path / "b.tif").write_bytes(raw)
    one, two = (reblock.open(tmp_path / name) for name in ("a.tif", "b.tif"))
    assert one.store.structure is not two.store.structure
    expected = np.concatenate([data[20:], data[:20]]) if offset == "strip" else data
    assert np.array_equal(two[...], expected)
    assert two.attributes["ImageDescription"] == ("other" if offset == "description" else "first")


# ---------------------------------------------------------------- what elements mean
@pytest.mark.parametrize("shape", [(3, 3, 1), (20, 30, 1), (2, 3, 1, 4, 1), (4, 1, 20, 1)])
def test_axes_of_length_one_may_be_anywhere(tmp_path: Path, shape: tuple[int, ...]) -> None:
    data = noise(shape, "u1")
    tifffile.imwrite(tmp_path / "x.tif", data, photometric="minisblack")
    assert np.array_equal(reblock.open(tmp_path / "x.tif")[...], data)


def test_colours_that_are_not_kept_are_noted(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "x.tif", noise((20, 30), "u1"), photometric="miniswhite")
    assert any("0 is white is not kept" in note for note in reblock.open(tmp_path / "x.tif").store.schema.notes)
    tifffile.imwrite(
        tmp_path / "x.tif", noise((20, 30), "u1"), photometric="palette", colormap=np.zeros((3, 256), "u2")
    )
    assert any("in a palette is not kept" in note for note in reblock.open(tmp_path / "x.tif").store.schema.notes)


def test_the_orientation_is_kept(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "x.tif", noise((20, 30), "u1"), extratags=[(274, 3, 1, 6, True)])
    reblock.repartition(tmp_path / "x.tif", tmp_path / "y.tif")
    with tifffile.TiffFile(tmp_path / "y.tif") as tif:
        assert tif.pages[0].tags[274].value == 6


@pytest.mark.parametrize(("dtype", "advice"), [("?", "dtype='u1'"), ("V4", "zarr and npy hold them"), ("S3", "zarr")])
def test_types_that_tiff_lacks_are_named(tmp_path: Path, dtype: str, advice: str) -> None:
    with pytest.raises(UsageError, match=f"not .*; .*{advice}"):
        reblock.plan(np.zeros((4, 5), dtype), tmp_path / "x.tif")


@pytest.mark.parametrize("between", [None, "x.zarr"])
def test_sizes_of_pixels_stay_in_ome(tmp_path: Path, between: str | None) -> None:
    told = {"axes": "CZYX", "PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm", "PhysicalSizeZ": 2.0, "Channel": {}}
    told["Channel"] = {"Name": ["<a> & b", "c"]}
    tifffile.imwrite(tmp_path / "x.ome.tif", noise((2, 3, 20, 30), "u1"), photometric="minisblack", metadata=told)
    source = tmp_path / "x.ome.tif"
    if between is not None:
        reblock.repartition(source, tmp_path / between)
        source = tmp_path / between
    reblock.repartition(source, tmp_path / "y.ome.tif", region=":,1:,:,5:", transpose=(1, 0, 2, 3))
    with tifffile.TiffFile(tmp_path / "y.ome.tif") as tif:
        pixels = tifffile.xml2dict(tif.ome_metadata)["OME"]["Image"]["Pixels"]
        assert tif.series[0].shape == (2, 2, 20, 25)
    assert [pixels.get(name) for name in ("PhysicalSizeX", "PhysicalSizeXUnit", "PhysicalSizeY")] == [0.25, "µm", None]
    assert pixels["PhysicalSizeZ"] == 2.0
    assert [channel["Name"] for channel in pixels["Channel"]] == ["<a> & b", "c"]
    assert np.array_equal(reblock.open(tmp_path / "y.ome.tif")[...].shape, (2, 2, 20, 25))
