"""The hidden folder beside a local target: its names, and how the array gets its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from reblock.engine.pipeline.tether import TETHER_SECONDS
from reblock.storage.media import durable
from reblock.storage.media.local_workspace import FENCE_SECONDS, LocalWorkspace
from reblock.storage.media.lock import FileLock, who_holds


def test_a_lock_whose_folder_is_removed_does_not_count(tmp_path: Path) -> None:
    """Whoever waits for a run that ends finds a folder that is gone, and makes its own."""
    workspace = LocalWorkspace(str(tmp_path / "y"))
    other = FileLock(workspace.lock)
    with workspace:
        workspace.remove()
        assert not os.path.exists(workspace.folder)
        other.take("y")
        assert os.path.exists(workspace.lock)
    # Leaving has not taken the other's folder away.
    assert str(who_holds(workspace.lock)).startswith("process")
    other.release()


def fill(folder: Path, content: str) -> None:
    folder.mkdir()
    (folder / "content").write_text(content)


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("old", ["folder", "file", "link", None])
@pytest.mark.parametrize("new", ["folder", "file"])
def test_publishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swaps: bool, old: str | None, new: str) -> None:
    if not swaps:
        monkeypatch.setattr(durable, "_function", lambda name: None)
    target = tmp_path / "y"
    if old == "folder":
        fill(target, "old")
    elif old == "file":
        target.write_text("old")
    elif old == "link":
        fill(tmp_path / "elsewhere", "old")
        target.symlink_to("elsewhere")
    with LocalWorkspace(str(target)) as workspace:
        if new == "folder":
            fill(Path(workspace.array), "new")
        else:
            Path(workspace.array).write_text("new")
        inode = os.stat(workspace.array).st_ino
        workspace.publish(replace=True)
        assert workspace.is_published(inode)
        assert (target / "content" if new == "folder" else target).read_text() == "new"
        assert not target.is_symlink()
    assert {entry.name for entry in tmp_path.iterdir()} == {"y"} | ({"elsewhere"} if old == "link" else set())
    if old == "link":
        assert (tmp_path / "elsewhere" / "content").read_text() == "old"


@pytest.mark.parametrize("renames", [True, False])
def test_publishing_over_what_somebody_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: bool
) -> None:
    if not renames:
        monkeypatch.setattr(durable, "_function", lambda name: None)
    with LocalWorkspace(str(tmp_path / "y")) as workspace:
        Path(workspace.array).write_text("new")
        (tmp_path / "y").write_text("theirs")
        with pytest.raises(FileExistsError):
            workspace.publish(replace=False)
        assert (tmp_path / "y").read_text() == "theirs"


def test_a_target_that_was_moved_away_is_put_back(tmp_path: Path) -> None:
    with LocalWorkspace(str(tmp_path / "y")) as workspace:
        fill(Path(workspace.folder) / "replaced", "old")
    assert (tmp_path / "y" / "content").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["y"]


def test_long_names_have_a_folder_each(tmp_path: Path) -> None:
    names = ["n" * 250 + end for end in ("a", "b")]
    folders = [LocalWorkspace(str(tmp_path / name)).folder for name in names]
    assert len(set(folders)) == 2
    for folder in folders:
        os.mkdir(folder)


def test_a_folder_with_a_journal_is_kept(tmp_path: Path) -> None:
    with LocalWorkspace(str(tmp_path / "y")) as workspace:
        Path(workspace.array).write_text("half")
        workspace.begin_log(b"{}\n")
    assert {path.name for path in Path(workspace.folder).iterdir()} == {"array", "journal", "lock"}
    said = json.loads(Path(workspace.lock).read_text())
    assert said["pid"] == os.getpid()
    with workspace:
        removed = workspace.clear()
    assert {os.path.basename(path) for path in removed} == {"array", "journal"}
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- worker processes
def test_the_workers_of_a_killed_run_are_fenced_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the lock removes the fence, and waits until nobody writes any more."""
    slept: list[float] = []
    monkeypatch.setattr("reblock.storage.media.local_workspace.time.sleep", slept.append)
    with LocalWorkspace(str(tmp_path / "y")) as workspace:
        workspace.begin_log(b"line\n")
        first = workspace.fence()
        assert first is not None
        assert os.path.exists(first)
    with LocalWorkspace(str(tmp_path / "y")) as workspace:
        assert slept == [FENCE_SECONDS]
        assert FENCE_SECONDS >= 3 * TETHER_SECONDS
        assert not os.path.exists(first)
        second = workspace.fence()
        assert second is not None
        assert second != first
        workspace.unfence()
        assert not os.path.exists(second)
        workspace.fence()
        workspace.clear()
        assert sorted(os.listdir(workspace.folder)) == ["lock"]
    assert slept == [FENCE_SECONDS]
    assert os.listdir(tmp_path) == []
