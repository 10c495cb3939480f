"""The compiled loop's dealings with files, held against what Python says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from reblock.engine import native
from reblock.engine.memory.arena import allocate
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES
from reblock.storage.media import durable

pytestmark = pytest.mark.skipif(native.library() is None, reason="the compiled loop was not built")


@pytest.mark.parametrize("names", [[], ["a"], ["", "b/c"], ["é", "漢字/x", "plain", "\udcff"]])
def test_names_are_found_where_they_start(names: list[str]) -> None:
    data, starts = native.joined(names)
    assert len(starts) == len(names)
    found = [data[start : data.index(b"\0", start)] for start in starts.tolist()]
    assert found == [os.fsencode(name) for name in names]


def test_durable_files_look_the_same_to_both(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"ü{number}") for number in range(5)]
    for number, path in enumerate(paths[:-1]):
        Path(path).write_bytes(bytes(number * 5000))
    assert np.array_equal(native.settle(paths), durable.settle(paths))
    assert np.array_equal(native.settle(paths), durable.looks(paths))
    assert not native.settle(paths)[-1].any()
    assert native.settle([]).shape == (0, 4)


def test_a_file_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(NotADirectoryError, match="file/below"):
        native.settle([str(tmp_path / "file"), str(tmp_path / "file" / "below")])


def test_folders_are_made_on_the_way_and_what_stands_in_it_is_told(tmp_path: Path) -> None:
    moves = native.Moves(
        shape=(4,),
        dtype=np.dtype("u1"),
        source_order=(0,),
        target_order=(0,),
        fill=0,
        fills=True,
        direct=1,
        digest=False,
    )
    data = np.arange(4, dtype=np.uint8)

    def write(path: Path) -> native.ResultStruct:
        names, starts = native.joined([str(path)])
        row = [native.address(data), 0, int(starts[0]), 0, data.size, 0, 0, 1, 0]
        result = native.ResultStruct()
        moves.write(np.array([row], np.int64), names, result)
        return result

    assert not write(tmp_path / "a" / "b" / "c").problem
    assert (tmp_path / "a" / "b" / "c").read_bytes() == bytes(range(4))
    for path, error in ((tmp_path / "a/b/c/d", errno.ENOTDIR), (tmp_path / "a/b/c/d/e", errno.ENOTDIR)):
        assert write(path).error == error
    (tmp_path / "closed").mkdir(mode=0o500)
    found = write(tmp_path / "closed" / "x" / "y")
    if os.geteuid():
        assert (native.PROBLEMS[found.problem], found.error) == ("creating the folder of", errno.EACCES)


def moves_of(**options: object) -> native.Moves:
    kind = {"dtype": np.dtype("u1"), "fill": 0, "fills": True, "direct": DIRECT_BYTES, "digest": False, **options}
    return native.Moves(shape=(4,), source_order=(0,), target_order=(0,), **kind)


def fetch(path: Path, start: int, length: int, most: int, **options: object) -> bytes | None:
    names, _ = native.joined([str(path)])
    row = np.array([[-1, 0, start, length, length < 0, 1, 0] + [0] * 6], np.int64)
    staging = allocate(most + 2 * PAGE_BYTES + DIRECT_BYTES)
    found = moves_of(**options).fetch(native.address(row), names, staging, most, direct=most >= DIRECT_BYTES)
    return None if found is None else found.tobytes()


@pytest.mark.parametrize("size", [0, 1, 5000, DIRECT_BYTES, 3 * DIRECT_BYTES + 17])
def test_stored_bytes_are_fetched_from_anywhere(size: int, tmp_path: Path) -> None:
    data = np.random.default_rng(size).bytes(size)
    (tmp_path / "x").write_bytes(data)
    for most in (size, size + DIRECT_BYTES):
        assert fetch(tmp_path / "x", 0, -1, most) == data
        for start, length in ((0, size), (size // 3, size // 2), (size, 0)):
            assert fetch(tmp_path / "x", start, length, most) == data[start : start + length]


def test_what_is_out_of_the_ordinary_is_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(100))
    (tmp_path / "link").symlink_to(tmp_path / "x")
    os.mkfifo(tmp_path / "pipe")
    assert fetch(tmp_path / "nothing", 0, -1, 100) is None
    assert fetch(tmp_path, 0, -1, 100) is None
    assert fetch(tmp_path / "pipe", 0, -1, 100) is None
    assert fetch(tmp_path / "x", 0, -1, 99) is None
    for start, length in ((0, 101), (50, 51), (101, 0), (101, -1), (-1, 5), (2**62, 2**62)):
        assert fetch(tmp_path / "x", start, length, 2**20) is None
    assert fetch(tmp_path / "link", 0, -1, 100) == bytes(100)
    assert fetch(tmp_path / "link", 0, -1, 100, flags=os.O_NOFOLLOW) is None
    for stamps, known in (([0], False), ([1], True), ([2], False)):
        table = native.Stamps(np.array(stamps, np.uint16), 1, exact=True)
        assert (fetch(tmp_path / "x", 0, -1, 100, stamps=table) is not None) == known
