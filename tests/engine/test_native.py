"""The compiled loop's dealings with files, held against what Python says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from reblock.engine import native
from reblock.storage import durable

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

    def write(path: Path) -> native.Result:
        names, starts = native.joined([str(path)])
        row = [native.address(data), 0, int(starts[0]), 0, data.size, 0, 0, 1, 0]
        result = native.Result()
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
