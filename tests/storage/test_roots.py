"""Roots: links may lead anywhere inside what was named and what was allowed, and nowhere else."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from reblock.errors import ExternalError, UsageError
from reblock.model.roots import Roots
from reblock.storage import roots as module
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import read_head
from reblock.storage.roots import FileRoots


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An array with files and links, and something outside."""
    for name in ("array/c/0", "array/c/1", "outside/deep/0"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "array/file").symlink_to("../outside/deep/0")
    (tmp_path / "array/folder").symlink_to("../outside/deep")
    (tmp_path / "array/around").symlink_to("../array/c")
    (tmp_path / "array/again").symlink_to("c/0")
    (tmp_path / "array/loop").symlink_to("loop")
    (tmp_path / "name").symlink_to("array")
    (tmp_path / "array2").mkdir()
    (tmp_path / "array2/x").touch()
    return tmp_path


@pytest.mark.parametrize("named", ["array", "array/", "name", "name/"])
def test_inside_and_outside(place: Path, named: str) -> None:
    roots = FileRoots.of(f"{place}/{named}")
    assert isinstance(roots, Roots)
    base = f"{place}/{named}".rstrip("/")
    for name in ("c/0", "c/1", "c/none", "none/0", "around/0", "again", "file"):
        assert roots.allows(f"{base}/{name}")
    assert not roots.allows(f"{base}/folder/0")
    for name in ("c/0", "around/1", "again"):
        assert roots.resolve(f"{base}/{name}").startswith(os.path.realpath(place / "array/c"))
    for name in ("file", "folder/0", "../outside/deep/0", "../array2/x"):
        with pytest.raises(ExternalError, match="allow_external="):
            roots.resolve(f"{base}/{name}")


def test_what_is_read_through_them(place: Path) -> None:
    roots = FileRoots.of(str(place / "array"))
    assert read_head(LOCAL, f"{place}/array/again", 99, roots)[0] == b"array/c/0"
    assert read_head(LOCAL, f"{place}/array/around/1", 99, roots)[0] == b"array/c/1"
    for name in ("file", "folder/0"):
        with pytest.raises(ExternalError, match="outside/deep/0"):
            read_head(LOCAL, f"{place}/array/{name}", 99, roots)
        assert read_head(
            LOCAL, f"{place}/array/{name}", 99, FileRoots.of(str(place / "array"), [str(place / "outside")])
        )[0]


def test_what_is_allowed(place: Path) -> None:
    roots = FileRoots.of(str(place / "array"), [str(place / "outside")])
    assert roots.allows(f"{place}/array/folder/0")
    assert roots.resolve(f"{place}/array/file") == os.path.realpath(place / "outside/deep/0")
    with pytest.raises(ExternalError):
        roots.resolve(f"{place}/array2/x")
    assert FileRoots.of(str(place / "array"), ["/"]).resolve("/etc/../etc") == os.path.realpath("/etc")
    (place / "alias").symlink_to("outside")
    assert FileRoots.of(str(place / "array"), [str(place / "alias")]).allows(f"{place}/array/folder/0")
    for missing in (place / "nowhere", place / "array/c/0"):
        with pytest.raises(UsageError, match="no such folder"):
            FileRoots.of(str(place / "array"), [str(missing)])


def test_a_file_is_its_own_root(place: Path) -> None:
    roots = FileRoots.of(f"{place}/array/c/0")
    assert roots.allows(f"{place}/array/c/0")
    assert not roots.allows(f"{place}/array/c/1")
    link = FileRoots.of(f"{place}/array/file")
    assert not link.allows(f"{place}/array/file")
    assert link.resolve(f"{place}/array/file") == os.path.realpath(place / "outside/deep/0")


def test_relative_names(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert FileRoots.of("array").allows("array/c/0")
    assert not FileRoots.of("array").allows("array/folder/0")
    assert FileRoots.of("array/c/0").allows("array/c/0")
    monkeypatch.chdir(place / "array/c")
    assert FileRoots.of("0").allows("0")
    assert not FileRoots.of("0").allows("1")
    assert FileRoots.of("..").allows("../c/0")


def test_a_million_chunks_are_a_look_at_each_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots, looks, true = FileRoots.of(str(place / "array")), [], os.path.islink
    monkeypatch.setattr(os.path, "islink", lambda path: looks.append(path) or true(path))
    monkeypatch.setattr(os.path, "realpath", lambda path: pytest.fail("looked at every part of the path"))
    for number in range(1000):
        assert roots.allows(f"{place}/array/c/{number}")
        assert roots.allows(f"{place}/array/d/{number % 3}/{number}")
    assert len(looks) == 5


def test_folders_are_forgotten(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY_FOLDERS", 10)
    roots = FileRoots.of(str(place / "array"))
    for number in range(100):
        assert roots.allows(f"{place}/array/{number}/x")
    assert len(roots._folders) <= 10


def test_pickles(place: Path) -> None:
    roots = FileRoots.of(str(place / "array"), [str(place / "outside")])
    roots.allows(f"{place}/array/c/0")
    again = pickle.loads(pickle.dumps(roots))
    assert again == roots
    assert again.allows(f"{place}/array/folder/0")
