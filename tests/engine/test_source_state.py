"""What files look like: the compiled loop and numpy agree, sums tell, and stamps do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.engine import native, source_state
from reblock.engine.source_state import SourceState
from reblock.engine.view import View
from reblock.geometry import Box
from reblock.storage.media.local import LOCAL

needs_loop = pytest.mark.skipif(native.library() is None, reason="the compiled loop was not built")


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> View:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(12 * 10 * 8, dtype="i4").reshape(12, 10, 8))
    reblock.repartition("x.npy", "x.zarr", chunks="2,3,4")
    for path in ("x.zarr/c/2/0/0", "x.zarr/c/5/2/1"):
        os.unlink(path)
    # Neither there nor missing.
    os.symlink("0", "x.zarr/c/2/0/0")
    return View(reblock.open("x.zarr").store, Box((2, 0, 0), (12, 9, 8)), (2, 0, 1))


@needs_loop
@pytest.mark.parametrize("share", [1, 2, 7, 100])
def test_the_loop_and_numpy_see_the_same(share: int, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_state, "_MOST_STAMPS", -(-30 // share))
    monkeypatch.setattr(source_state, "_BATCH", 4)
    compiled = SourceState(view)
    with monkeypatch.context() as without:
        without.setattr(native, "library", lambda: None)
        slow = SourceState(view)
    assert compiled.start == slow.start
    assert np.array_equal(compiled.stamps.table, slow.stamps.table)
    assert compiled.start.present == 30 - 2
    os.utime("x.zarr/c/3/1/0")
    os.chmod("x.zarr/c/4/1/0", 0o600)
    os.unlink("x.zarr/c/4/1/1")
    now = compiled.again(compiled.start.newest_ns + 1)
    with monkeypatch.context() as without:
        without.setattr(native, "library", lambda: None)
        assert slow.again(slow.start.newest_ns + 1) == now
    assert now.firm != compiled.start.firm
    assert len(now.suspects or ()) == (3 if share == 1 else 2)


def test_objects_are_numbered_as_they_lie_in_the_store(view: View) -> None:
    files = list(SourceState(view).files())
    first = [f"x.zarr/c/{i}/{j}/{k}" for i in range(1, 6) for j in range(3) for k in range(2)]
    assert files == first
    for number in range(len(files)):
        index = view.object_at(number)
        assert view.object_number(index) == number
        assert files[number].endswith("/".join(map(str, view.object_index(index))))
    everything = np.array([view.object_at(number) for number in range(len(files))])
    assert view.object_numbers(everything).tolist() == list(range(len(files)))


@pytest.mark.parametrize("share", [1, 3])
@pytest.mark.parametrize("built", [True, False])
def test_stamps_tell(share: int, built: bool, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    if not built:
        monkeypatch.setattr(native, "library", lambda: None)
    monkeypatch.setattr(source_state, "_MOST_STAMPS", -(-30 // share))
    found = SourceState(view)
    files = list(found.files())
    for number, path in enumerate(files):
        assert found.knows(number, LOCAL.status(path) if os.path.exists(path) else None)
    # What was there, alone or with all that share a stamp with it, must not be missing; what was not must not be there.
    alone = [number for number in range(30) if all(map(os.path.exists, files[number // share * share :][:share]))]
    assert len(alone) > 20
    assert not any(found.knows(number, None) for number in alone)
    assert found.knows(files.index("x.zarr/c/5/2/1"), LOCAL.status("x.npy")) == (share > 1)
    assert found.knows(0, LOCAL.status("x.npy")) == (share > 1)


def test_suspects_are_listed(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SourceState(view)
    os.chmod("x.zarr/c/3/1/0", 0o600)
    os.utime("x.zarr/c/4/1/0", ns=(0, 0))
    os.unlink("x.zarr/c/4/1/1")
    now = found.again(found.start.newest_ns + 1)
    assert [found.path(number) for number in now.suspects or ()] == [
        f"x.zarr/c/{x}" for x in ("3/1/0", "4/1/0", "4/1/1")
    ]
    assert found.differing(now) == ["x.zarr/c/4/1/0", "x.zarr/c/4/1/1"]
    assert now.present == found.start.present - 1
    monkeypatch.setattr(source_state, "_MOST_SUSPECTS", 2)
    assert found.again(found.start.newest_ns + 1).suspects is None


def test_one_changed_file_always_changes_the_sum(view: View) -> None:
    before: Any = SourceState(view).start
    for time in range(50):
        os.utime("x.zarr/c/3/1/0", ns=(0, time))
        now = SourceState(view).start
        assert now.firm != before.firm
        before = now
