"""blocks: files on disk are what the manifest says, and a manifest that lies is found out."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import CorruptError, ExternalError, FormatError, ReblockError, UsageError
from reblock.geometry import Grid
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.model.store import Format, Store
from reblock.storage.blocks.format import FORMAT, FORMAT_RAW
from reblock.storage.npy_header import header_of
from reblock.testing.arrays import noise, same_bits
from reblock.testing.reference_io import read_array, write_array


def make(path: Path, schema: Schema, kind: Format = FORMAT) -> np.ndarray[Any, Any]:
    """A block folder of noise."""
    array = noise(schema.shape, schema.dtype)
    store = kind.create(str(path), "", kind.adapt(schema, ()))
    write_array(store, array)
    store.commit()
    return array


def reopen(path: Path) -> Store:
    return FORMAT.open(str(path), "")


@pytest.mark.parametrize("chunks", [(4, 3), ((1, 6, 3), (5, 2)), (10, 7), (100, 1)], ids=str)
def test_npy_blocks_are_files_of_numpy(tmp_path: Path, chunks: tuple[Any, ...]) -> None:
    array = make(tmp_path / "b", Schema((10, 7), np.dtype(">f4"), chunks))
    grid = Grid.of((10, 7), chunks)
    for i, j in grid.indices():
        block = np.load(tmp_path / "b" / f"{i}_{j}.npy", allow_pickle=False)
        assert same_bits(block, array[grid.box((i, j)).slices])
    assert len(os.listdir(tmp_path / "b")) == grid.count + 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)], ids=str)
def test_raw_blocks_are_nothing_but_elements(tmp_path: Path, order: tuple[int, ...]) -> None:
    array = make(tmp_path / "b", Schema((5, 4, 7), np.dtype("<u2"), (2, 3, 4), order=order), FORMAT_RAW)
    grid = Grid.of((5, 4, 7), (2, 3, 4))
    for index in grid.indices():
        name = "_".join(map(str, index)) + ".bin"
        block = array[grid.box(index).slices]
        assert (tmp_path / "b" / name).read_bytes() == block.transpose(order).tobytes()


def test_fortran_blocks_say_so(tmp_path: Path) -> None:
    array = make(tmp_path / "b", Schema((6, 4), np.dtype("<i4"), (3, 2), order=(1, 0)))
    block = np.load(tmp_path / "b" / "1_0.npy")
    assert block.flags.f_contiguous
    assert same_bits(block, array[3:, :2])


def test_no_axes(tmp_path: Path) -> None:
    array = make(tmp_path / "b", Schema((), np.dtype("<f8"), ()))
    assert sorted(os.listdir(tmp_path / "b")) == ["0.npy", "reblock.json"]
    assert same_bits(np.load(tmp_path / "b" / "0.npy"), array)


def test_no_elements(tmp_path: Path) -> None:
    make(tmp_path / "b", Schema((3, 0), np.dtype("<f8"), (2, 2)))
    assert os.listdir(tmp_path / "b") == ["reblock.json"]
    assert reopen(tmp_path / "b").schema.shape == (3, 0)


@given(
    lengths=st.lists(st.integers(1, 10**7), min_size=1, max_size=12),
    order=st.booleans(),
    data=st.data(),
)
def test_headers_of_all_blocks_have_one_length(lengths: list[int], order: bool, data: st.DataObject) -> None:
    from reblock.storage.blocks import format as blocks

    chunks = tuple(data.draw(st.integers(1, n)) for n in lengths)
    axes = tuple(range(len(lengths)))
    schema = Schema(tuple(lengths), np.dtype("<c16"), chunks, order=axes[:: -1 if order else 1])
    largest = blocks._layout(schema).objects.largest
    offset = len(header_of(schema, largest))
    for corner in (chunks, tuple(n % c or c for n, c in zip(lengths, chunks, strict=True)), (1,) * len(chunks)):
        assert len(header_of(schema, corner, offset)) == offset


def test_the_manifest_is_small_and_plain(tmp_path: Path) -> None:
    make(
        tmp_path / "b",
        Schema(
            (10, 7),
            np.dtype("<f4"),
            ((1, 6, 3), 4),
            fill_value=np.float32(-0.0),
            attributes={"unit": "K", "nan": math.nan},
            axes=("y", "x"),
        ),
    )
    found = json.loads((tmp_path / "b" / "reblock.json").read_text())
    assert math.isnan(found["attributes"].pop("nan"))
    assert found == {
        "reblock": 1,
        "shape": [10, 7],
        "dtype": "<f4",
        "chunks": [[1, 6, 3], 4],
        "order": [0, 1],
        "files": "{index}.npy",
        "offset": 128,
        "fill_value": "00000080",
        "axes": ["y", "x"],
        "attributes": {"unit": "K"},
    }


def test_a_manifest_written_by_hand(tmp_path: Path) -> None:
    array = noise((6, 4), "<i4")
    for i in range(2):
        (tmp_path / f"part_{i}_0.bin").write_bytes(array[3 * i : 3 * i + 3].tobytes())
    manifest = {"reblock": 1, "shape": [6, 4], "dtype": "<i4", "chunks": [3, 4], "files": "part_{index}.bin"}
    (tmp_path / "reblock.json").write_text(json.dumps(manifest))
    store = reopen(tmp_path)
    assert store.format == "rawblocks"
    assert same_bits(read_array(store), array)


def test_a_million_blocks_are_opened_without_looking_at_them(tmp_path: Path) -> None:
    manifest = {"reblock": 1, "shape": [10**9], "dtype": "<i4", "chunks": [1], "files": "{index}.bin"}
    (tmp_path / "reblock.json").write_text(json.dumps(manifest))
    assert reopen(tmp_path).layout.objects.count == 10**9


CHANGES: list[tuple[str, Any]] = [
    ("reblock", 2), ("reblock", None), ("shape", [10**30, 1]), ("shape", [-1, 7]), ("shape", [10.0, 7]), ("shape", 3),
    ("shape", [10, 7, 1]), ("shape", [1] * 65), ("dtype", "O"), ("dtype", "f4,f4"), ("dtype", 3), ("dtype", "x"),
    ("chunks", [0, 3]), ("chunks", [4]), ("chunks", [[4, 4], 3]), ("chunks", [2**62, 2]), ("chunks", None),
    ("chunks", [True, 3]), ("order", [0, 0]), ("order", "C"), ("order", [1, 2]), ("files", "../{index}.npy"),
    ("files", "/etc/{index}.npy"), ("files", "{index}.npy/{index}.npy"), ("files", "x.npy"), ("files", "{index}.txt"),
    ("files", None), ("files", "{index}\0.npy"), ("offset", -1), ("offset", 1 << 20), ("offset", 1.5),
    ("fill_value", 3), ("fill_value", "00"), ("fill_value", "zz"), ("axes", ["a"]), ("axes", "ab"), ("axes", [1, 2]),
    ("attributes", []), ("attributes", "a"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), CHANGES, ids=str)
def test_a_manifest_that_makes_no_sense(tmp_path: Path, key: str, value: Any) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    path = tmp_path / "b" / "reblock.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(FormatError, match=r"reblock\.json") as error:
        reopen(tmp_path / "b")
    assert "\n" not in str(error.value)
    assert FORMAT.probe(str(tmp_path / "b")), "it is still a block folder"


@pytest.mark.parametrize("key", ["reblock", "shape", "dtype", "chunks", "files"])
def test_a_manifest_without_a_key(tmp_path: Path, key: str) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    path = tmp_path / "b" / "reblock.json"
    found = json.loads(path.read_text())
    del found[key]
    path.write_text(json.dumps(found))
    with pytest.raises(FormatError, match=f"'{key}' missing"):
        reopen(tmp_path / "b")


@pytest.mark.parametrize(
    ("key", "value"),
    [("offset", 64), ("dtype", "<i4"), ("dtype", ">f4"), ("chunks", [5, 3]), ("order", [1, 0]), ("shape", [3, 7])],
    ids=str,
)
def test_a_manifest_that_contradicts_its_blocks(tmp_path: Path, key: str, value: Any) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    path = tmp_path / "b" / "reblock.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises((FormatError, CorruptError), match=r"0_0\.npy"):
        reopen(tmp_path / "b")


def test_a_folder_without_manifest(tmp_path: Path) -> None:
    np.save(tmp_path / "0_0.npy", np.arange(3))
    with pytest.raises(FormatError, match=r"reblock\.json is missing"):
        reopen(tmp_path)
    assert not FORMAT.probe(str(tmp_path))
    assert not FORMAT_RAW.probe(str(tmp_path))


@pytest.mark.parametrize("kind", [FORMAT, FORMAT_RAW], ids=lambda kind: kind.name)
def test_each_knows_its_own_and_both_open_both(tmp_path: Path, kind: Format) -> None:
    array = make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)), kind)
    assert [k.probe(str(tmp_path / "b")) for k in (FORMAT, FORMAT_RAW)] == [kind is FORMAT, kind is FORMAT_RAW]
    for opener in (FORMAT, FORMAT_RAW):
        store = opener.open(str(tmp_path / "b"), "")
        assert store.format == kind.name
        assert same_bits(read_array(store), array)


@pytest.mark.parametrize("size", ["short", "long"])
@pytest.mark.parametrize("kind", [FORMAT, FORMAT_RAW], ids=lambda kind: kind.name)
def test_a_block_of_the_wrong_size(tmp_path: Path, kind: Format, size: str) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)), kind)
    (block,) = (tmp_path / "b").glob("2_1.*")
    with block.open("ab") as stream:
        stream.truncate(block.stat().st_size + (1 if size == "long" else -1))
    with pytest.raises(CorruptError, match=r"2_1\..* bytes, a block of its shape has"):
        read_array(reopen(tmp_path / "b"))


def test_a_block_that_is_a_link(tmp_path: Path) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    os.rename(tmp_path / "b" / "2_1.npy", tmp_path / "secret")
    os.symlink(tmp_path / "secret", tmp_path / "b" / "2_1.npy")
    with pytest.raises(ExternalError, match="leads to"):
        read_array(reopen(tmp_path / "b"))


def test_a_first_block_that_is_a_link_is_not_followed_at_opening(tmp_path: Path) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    os.rename(tmp_path / "b" / "0_0.npy", tmp_path / "secret")
    os.symlink(tmp_path / "secret", tmp_path / "b" / "0_0.npy")
    with pytest.raises(ExternalError):
        reopen(tmp_path / "b")


def test_a_block_that_is_no_file(tmp_path: Path) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    os.unlink(tmp_path / "b" / "2_1.npy")
    os.mkfifo(tmp_path / "b" / "2_1.npy")
    with pytest.raises(FormatError, match="a pipe"):
        read_array(reopen(tmp_path / "b"))


@pytest.mark.parametrize("name", ["0_0", "2_1"])
def test_a_missing_block_is_an_error_when_it_is_read(tmp_path: Path, name: str) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    os.unlink(tmp_path / "b" / f"{name}.npy")
    store = reopen(tmp_path / "b")
    with pytest.raises(CorruptError, match="is missing"):
        read_array(store)


def test_there_is_no_manifest_before_commit(tmp_path: Path) -> None:
    schema = FORMAT.adapt(Schema((10, 7), np.dtype("<f4"), (4, 3)), ())
    store = FORMAT.create(str(tmp_path / "b"), "", schema)
    write_array(store, noise((10, 7), "<f4"))
    store.checkpoint()
    assert not FORMAT.probe(str(tmp_path / "b"))
    store.commit()
    assert FORMAT.probe(str(tmp_path / "b"))
    store.commit()
    assert len(os.listdir(tmp_path / "b")) == 10


def test_what_blocks_cannot_hold() -> None:
    schema = Schema((4, 5, 6), np.dtype("<i4"), (2, 2, 2), order=(1, 0, 2), codec=Codec.parse("zstd"), shards=(4, 4, 4))
    for field in ("order", "codec", "shards"):
        with pytest.raises(UsageError):
            FORMAT.adapt(schema, {field})
    adapted = FORMAT.adapt(schema, ())
    assert (adapted.order, adapted.codec, adapted.shards) == ((0, 1, 2), Codec(), None)
    assert len(adapted.notes) == 3
    assert FORMAT_RAW.adapt(schema, {"order"}).order == (1, 0, 2)
    with pytest.raises(UsageError):
        FORMAT.adapt(Schema((4,), np.dtype("O"), (2,)), ())


def test_inner_paths_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "b", Schema((10, 7), np.dtype("<f4"), (4, 3)))
    with pytest.raises(UsageError, match="leave out ::data"):
        FORMAT.open(str(tmp_path / "b"), "data")
    with pytest.raises(UsageError, match="leave out ::data"):
        FORMAT.create(str(tmp_path / "c"), "data", reopen(tmp_path / "b").schema)


@given(data=st.data())
def test_any_change_of_a_manifest_gives_an_array_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "changed"
    if not folder.exists():
        make(folder, Schema((10, 7), np.dtype("<f4"), (4, 3)), FORMAT_RAW)
        (folder / "keep").write_bytes((folder / "reblock.json").read_bytes())
    whole = bytearray((folder / "keep").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    (folder / "reblock.json").write_bytes(whole)
    try:
        store = reopen(folder)
        if store.layout.objects.count < 100 and store.layout.nbytes < 1 << 20:
            read_array(store)
    except ReblockError:
        pass
