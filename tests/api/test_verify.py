"""Digests that are stored with arrays and checked by `verify`, and checksums in targets."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import CorruptError, ExternalError, StorageError, UsageError
from reblock.storage.records import ATTRIBUTE

TARGETS: dict[str, dict[str, Any]] = {
    "y/": {"chunks": "5,4"},
    "raw/": {"chunks": "5,4", "to_format": "rawblocks"},
    "y.zarr": {"chunks": "5,4", "codec": "zstd:1"},
    "y.zarr::a/b": {"chunks": "5,4"},
    "s.zarr": {"chunks": "5,4", "shards": "10,8"},
    "two.zarr": {"chunks": "5,4", "to_format": "zarr2"},
    "y.h5": {"chunks": "5,4"},
    "whole.h5": {"chunks": "-1,-1"},
    "z.h5::/deep/er": {"chunks": "5,4", "codec": "gzip:1"},
    "l.h5": {"chunks": "5,4", "codec": "lzf"},
}


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    elements = np.random.default_rng(3).integers(0, 1 << 16, (23, 17), "u2")
    np.save("x.npy", elements)
    return elements


@pytest.mark.parametrize("target", TARGETS)
def test_the_digest_is_kept_with_the_target(target: str) -> None:
    report = reblock.repartition("x.npy", target, **TARGETS[target])
    found = reblock.info(target)
    assert found["digest"] == report.digest is not None
    assert found["attributes"] == {}
    verdict = reblock.verify("x.npy", target)
    assert verdict.equal
    assert verdict.source_digest == verdict.target_digest == report.digest
    assert verdict.differences == ()


def test_a_npy_file_has_no_place_for_it() -> None:
    digest = reblock.repartition("x.npy", "y.npy").digest
    assert reblock.info("y.npy")["digest"] is None
    assert reblock.verify("x.npy", "y.npy").target_digest == digest


@pytest.mark.parametrize("target", ["y/", "y.zarr", "two.zarr", "z.h5::/deep/er"])
def test_a_copy_gets_its_own(target: str) -> None:
    reblock.repartition("x.npy", target, **TARGETS[target])
    part = reblock.repartition(target, "part.zarr", region="2:9,:", transpose="1,0")
    assert reblock.info("part.zarr")["digest"] == part.digest != reblock.info(target)["digest"]
    reblock.repartition(target, "without.zarr", digest=False)
    assert reblock.info("without.zarr")["digest"] is None
    assert reblock.open("without.zarr").attributes == {}
    verdict = reblock.verify(target, "part.zarr", region="2:9,:", transpose="1,0")
    assert verdict.equal
    assert verdict.source_digest == part.digest


def test_others_do_not_see_it_among_the_attributes(source: np.ndarray[Any, Any]) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    digest = reblock.repartition("x.npy", "y.h5", chunks="5,4").digest
    assert digest
    with h5py.File("y.h5") as file:
        assert dict(file["data"].attrs) == {}
        assert digest.encode() in file["/"].id.get_comment(b"data")
        assert np.array_equal(file["data"][...], source)
    for target, options in (("y.zarr", {}), ("two.zarr", {"to_format": "zarr2"})):
        reblock.repartition("x.npy", target, chunks="5,4", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            array = zarr.open_array(target, mode="r+")
            assert dict(array.attrs) == {}
            assert np.array_equal(array[...], source)
            array.attrs["mine"] = 1
        assert reblock.info(target)["digest"] == digest
        assert reblock.info(target)["attributes"] == {"mine": 1}


@pytest.mark.parametrize("target", ["y.zarr", "two.zarr", "y.h5"])
def test_a_digest_among_the_attributes_is_still_read(target: str) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    options = {"to_format": "zarr2"} if target == "two.zarr" else {}
    reblock.repartition("x.npy", target, chunks="5,4", digest=False, **options)
    assert reblock.info(target)["digest"] is None
    digest = reblock.verify("x.npy", target).target_digest
    if target == "y.h5":
        with h5py.File(target, "r+") as file:
            file["data"].attrs[ATTRIBUTE] = digest
    else:
        zarr.open_array(target, mode="r+").attrs[ATTRIBUTE] = digest
    assert reblock.info(target)["digest"] == digest
    assert reblock.info(target)["attributes"] == {}
    reblock.repartition(target, "copy.zarr", digest=False)
    assert reblock.info("copy.zarr")["digest"] is None


def test_a_comment_of_others_is_no_record() -> None:
    h5py = pytest.importorskip("h5py")
    for comment in (b"measured on a Tuesday", b"{", b'{"digest": 7, "job": ["x"]}', b'{"digest": "mine"}'):
        with h5py.File("c.h5", "w") as file:
            file["data"] = np.arange(6)
            file["/"].id.set_comment(b"data", comment)
        assert reblock.info("c.h5")["digest"] is None


def test_differences_are_named_and_digests_differ(source: np.ndarray[Any, Any]) -> None:
    reblock.repartition("x.npy", "y/", chunks="5,4")
    stored = reblock.info("y/")["digest"]
    block = Path("y/1_2.npy")
    data = bytearray(block.read_bytes())
    data[-1] ^= 1
    block.write_bytes(data)
    verdict = reblock.verify("x.npy", "y/", memory=8 * source.shape[1] * 2)
    assert not verdict
    assert verdict.source_digest == stored != verdict.target_digest
    assert "is not what was written" in verdict.differences[0]
    assert str(verdict.target_digest) in verdict.differences[0]
    (box,) = verdict.differences[1:]
    ranges = [range(*map(int, part)) for part in re.findall(r"(\d+):(\d+)", box)]
    # The last element of block (1, 2).
    assert 9 in ranges[0]
    assert 11 in ranges[1]


def test_a_source_that_changed_is_not_blamed_on_the_target(source: np.ndarray[Any, Any]) -> None:
    reblock.repartition("x.npy", "y/", chunks="5,4")
    np.save("x.npy", source + 1)
    verdict = reblock.verify("x.npy", "y/")
    assert not verdict.equal
    assert verdict.target_digest == reblock.info("y/")["digest"]
    assert all(difference.startswith("box ") for difference in verdict.differences)
    assert reblock.verify("x.npy", "y/", transpose="1,0").source_digest is None


@pytest.mark.parametrize(
    ("target", "options", "codec"),
    [
        ("y.zarr", {}, "crc32c"),
        ("y.zarr", {"codec": "zstd:1"}, "zstd:1+crc32c"),
        ("s.zarr", {"shards": "10,8"}, "crc32c"),
        ("two.zarr", {"to_format": "zarr2", "codec": "zlib:1"}, "zlib:1+crc32c"),
        ("y.h5", {}, "fletcher32"),
        ("y.h5", {"codec": "shuffle+gzip:2"}, "shuffle+gzip:2+fletcher32"),
        ("l.h5", {"codec": "lzf"}, "lzf+fletcher32"),
        ("y.zarr", {"codec": "crc32c+zstd:1"}, "crc32c+zstd:1"),
    ],
)
def test_a_checksum_in_the_target(target: str, options: dict[str, Any], codec: str) -> None:
    reblock.repartition("x.npy", target, chunks="5,4", checksum=True, **options)
    assert reblock.info(target)["codec"] == codec
    assert reblock.verify("x.npy", target).equal


def test_others_read_checksums(source: np.ndarray[Any, Any]) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    for target, options in (("y.zarr", {}), ("two.zarr", {"to_format": "zarr2", "codec": "zstd:1"})):
        reblock.repartition("x.npy", target, chunks="5,4", checksum=True, **options)
        assert np.array_equal(zarr.open_array(target, mode="r")[...], source)
    reblock.repartition("x.npy", "y.h5", chunks="5,4", checksum=True)
    with h5py.File("y.h5") as file:
        assert file["data"].fletcher32
        assert np.array_equal(file["data"][...], source)


def test_a_checksum_notices_damage() -> None:
    reblock.repartition("x.npy", "y.zarr", chunks="5,4", checksum=True)
    chunk = Path("y.zarr/c/1/1")
    data = bytearray(chunk.read_bytes())
    data[3] ^= 4
    chunk.write_bytes(data)
    with pytest.raises(CorruptError, match=r"\(1,1\)"):
        reblock.verify("x.npy", "y.zarr")


@pytest.mark.parametrize("target", ["y.npy", "y/"])
def test_formats_without_checksums_refuse(target: str) -> None:
    with pytest.raises(UsageError, match=r"checksum: .* no place"):
        reblock.plan("x.npy", target, checksum=True)
    with pytest.raises(UsageError, match="checksum is for a target"):
        reblock.plan(shape="4,4", dtype="u1", source_chunks="2,2", chunks="4,4", checksum=True)
    assert os.listdir() == ["x.npy"]


# ---------------------------------------------------------------- what differs
@pytest.mark.parametrize("memory", [1, "100kB", "1MiB"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_the_first_difference_in_the_order_of_the_source(axes: tuple[int, ...], memory: Any) -> None:
    rng = np.random.default_rng(5)
    source = rng.integers(0, 1000, (40, 30, 50), "i4")
    region = source[3:39, 2:30, 1:48]
    target = region.transpose(axes).copy()
    places = sorted(tuple(int(rng.integers(n)) for n in region.shape) for _ in range(7))
    for place in places:
        target[tuple(place[axis] for axis in axes)] += 1
    np.save("s.npy", source)
    np.save("t.npy", target)
    reblock.repartition("t.npy", "t.zarr", chunks=(9, 8, 7), codec="zstd:1")
    options = {"region": "3:39,2:30,1:48", "transpose": axes, "memory": memory}
    for path in ("t.npy", "t.zarr"):
        if path == "t.zarr" and memory == 1:
            continue  # its chunks take more
        verdict = reblock.verify("s.npy", path, **options)
        first = verdict.first_difference
        assert first is not None
        assert first.index == tuple(at + start for at, start in zip(places[0], (3, 2, 1), strict=True))
        assert first.source == source[first.index]
        assert first.target == first.source + 1
        assert verdict.differing_elements == len(set(places))


@pytest.mark.parametrize(
    ("dtype", "one", "two", "shown"),
    [
        ("<f4", b"\x00\x00\x00\x00", b"\x00\x00\x00\x80", (0.0, -0.0)),
        ("<f4", b"\x00\x00\xc0\x7f", b"\x01\x00\xc0\x7f", ("nan (0x7fc00000)", "nan (0x7fc00001)")),
        (
            ">f8",
            b"\x7f\xf8" + bytes(6),
            b"\x7f\xf8" + bytes(5) + b"\x01",
            ("nan (0x7ff8000000000000)", "nan (0x7ff8000000000001)"),
        ),
        ("<c8", bytes(8), bytes(4) + b"\x00\x00\x80\x3f", ("0j", "1j")),
        ("<u8", b"\xff" * 8, b"\xfe" + b"\xff" * 7, (2**64 - 1, 2**64 - 2)),
        ("|b1", b"\x00", b"\x01", (False, True)),
        ("|b1", b"\x02", b"\x01", ("True (0x02)", "True (0x01)")),
        ("|S3", b"ab\x00", b"ab\xff", ("ab", "ab\\xff")),
        ("|V2", b"ab", b"ac", ("0x6162", "0x6163")),
        ("<M8[D]", bytes(8), b"\x01" + bytes(7), ("1970-01-01", "1970-01-02")),
    ],
)
def test_both_values_can_be_read(dtype: str, one: bytes, two: bytes, shown: tuple[Any, Any]) -> None:
    for name, data in (("one.npy", one), ("two.npy", two)):
        np.save(name, np.frombuffer(one * 2 + data, dtype))
    verdict = reblock.verify("one.npy", "two.npy")
    assert verdict.differing_elements == 1
    assert verdict.first_difference is not None
    assert verdict.first_difference.index == (2,)
    assert repr((verdict.first_difference.source, verdict.first_difference.target)) == repr(shown)


@pytest.mark.parametrize("reader", ["reblock", "library"])
def test_an_array_without_axes(reader: str) -> None:
    np.save("one.npy", np.array(True))
    np.save("two.npy", np.array(False))
    reblock.repartition("one.npy", "one.zarr")
    assert reblock.verify("one.npy", "one.zarr", reader=reader).differing_elements == 0
    verdict = reblock.verify("two.npy", "one.zarr", reader=reader)
    assert verdict.first_difference is not None
    assert verdict.first_difference.to_json() == {"index": [], "source": False, "target": True}


# ---------------------------------------------------------------- by the libraries
@pytest.mark.parametrize("target", TARGETS)
def test_libraries_read_what_we_wrote(target: str) -> None:
    report = reblock.repartition("x.npy", target, **TARGETS[target])
    verdict = reblock.verify("x.npy", target, reader="library")
    assert verdict.equal
    assert verdict.target_digest == report.digest
    assert verdict.differences == ()


@pytest.mark.parametrize("target", ["x.npy", "y/", "raw/", "y.zarr", "two.zarr", "z.h5::/deep/er"])
def test_libraries_share_no_reader_with_us(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever we would read wrong, the libraries read right."""
    if target in TARGETS:
        reblock.repartition("x.npy", target, **TARGETS[target])

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("a library reads, and we do not")

    readers = "pipeline.readers"
    for module, name in {
        "region": "load",
        "compare": "load",
        f"{readers}.fetch": "read_units",
        f"{readers}.opener": "Opener",
    }.items():
        monkeypatch.setattr(sys.modules[f"reblock.engine.{module}"], name, forbidden)
    with pytest.raises(AssertionError):
        reblock.verify("x.npy", target)
    options = {"region": "2:20,1:", "transpose": "1,0"}
    reblock.verify("x.npy", target, reader="library", **options)
    assert reblock.verify("x.npy", target, reader="library").equal


def test_a_library_finds_a_difference(source: np.ndarray[Any, Any]) -> None:
    import h5py

    source[7, 3] += 5
    with h5py.File("y.h5", "w") as file:
        file.create_dataset("d", data=source, chunks=(5, 4), maxshape=(23, None))
    verdict = reblock.verify("x.npy", "y.h5", reader="library")
    assert verdict.differing_elements == 1
    assert verdict.first_difference is not None
    assert verdict.first_difference.index == (7, 3)


def test_what_libraries_cannot_read_is_one_line() -> None:
    import h5py

    with h5py.File("y.h5", "w") as file:
        file["text"] = "variable"
        file["link"] = h5py.ExternalLink("other.h5", "/d")
    with pytest.raises(StorageError, match="no fixed size"):
        reblock.verify("x.npy", "y.h5::text", reader="library")
    with pytest.raises(ExternalError, match="link to another file"):
        reblock.verify("x.npy", "y.h5::link", reader="library")
    Path("bad.npy").write_bytes(b"\x93NUMPY\x01\x00junk")
    with pytest.raises(StorageError, match=r"bad.npy: numpy cannot read it"):
        reblock.verify("x.npy", "bad.npy", reader="library")
    with pytest.raises(UsageError, match="reader must be reblock or library, not 'h5py'"):
        reblock.verify("x.npy", "x.npy", reader="h5py")
