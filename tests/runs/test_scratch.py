"""Scratch: blocks go when nothing needs them any more, and only what is ours is removed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cases import make
from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.runs.numbers import Numbers
from reblock.runs.scratch import Spent, is_kept_folder, kept_folder, remove_kept
from reblock.storage.media.local import LOCAL

#: Blocks of four elements, and boxes of six that are made of them, as in the picture of the module.
SHAPE, BLOCKS, BOXES = (16,), (4,), (6,)


def left_after(folder: Path, *reports: list[int], finished: Numbers | None = None) -> set[int]:
    """Blocks that are left when boxes have become durable."""
    store = make(folder, "x", "rawblocks", SHAPE, BLOCKS)
    paths = [store.place((number,)).path for number in range(4)]
    for path in paths:
        Path(path).write_bytes(bytes(8))
    spent = Spent(store, Grid.of(SHAPE, BOXES), finished or Numbers(), LOCAL)
    for boxes in reports:
        spent(np.array(boxes, np.uint64))
    spent._remover.shutdown()
    return {number for number, path in enumerate(paths) if os.path.exists(path)}


@pytest.mark.parametrize(
    ("reports", "left"),
    [([], {0, 1, 2, 3}), ([[0]], {1, 2, 3}), ([[1]], {0, 1, 3}), ([[0], [1]], {3}), ([[0, 1, 2]], set())],
)
def test_blocks_go_when_all_that_is_made_of_them_is_durable(
    tmp_path: Path, reports: list[list[int]], left: set[int]
) -> None:
    assert left_after(tmp_path, *reports) == left


def test_boxes_that_were_finished_before_need_nothing(tmp_path: Path) -> None:
    # Its blocks were removed by the attempt that finished it, or go with the folder.
    assert left_after(tmp_path, [1], finished=Numbers([(0, 1)])) == {0, 3}


def test_a_target_has_one_folder_whatever_its_path_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept_folder(str(tmp_path / "y.zarr"), str(tmp_path / "scratch"))
    monkeypatch.chdir(tmp_path)
    assert kept_folder("y.zarr", "scratch") == folder
    assert kept_folder("z.zarr", "scratch") != folder
    assert is_kept_folder(folder)
    assert not is_kept_folder(os.path.relpath(folder))
    assert not is_kept_folder(str(tmp_path / "scratch"))


def test_only_intermediate_arrays_are_removed(tmp_path: Path) -> None:
    folder = kept_folder("y.zarr", str(tmp_path))
    assert not remove_kept(folder)
    private = LOCAL.private_folder(folder, make=True)
    assert private is not None
    private.close()
    os.mkdir(os.path.join(folder, "0"))
    Path(folder, "notes.txt").touch()
    with pytest.raises(UsageError, match=r"notes\.txt was not made by reblock"):
        remove_kept(folder)
    assert os.listdir(folder) == ["notes.txt"]
    os.remove(os.path.join(folder, "notes.txt"))
    assert remove_kept(folder)
    assert not os.path.exists(folder)
