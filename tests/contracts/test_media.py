"""Every medium of our own passes the contract that outside authors run on theirs, and the contract would notice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reblock.errors import DiskError
from reblock.model.medium import FOLDER, Listed, Medium, Status
from reblock.storage.media.local import LOCAL
from reblock.storage.media.memory import MEMORY, MemoryMedium
from reblock.storage.media.registry import medium_of
from reblock.testing.workspace import TargetMediumContract

NAMES = itertools.count()


class InMemory(TargetMediumContract):
    medium = MEMORY

    def root(self, tmp_path: Path) -> str:
        folder = f"memory://contract/{next(NAMES)}"
        self.make_medium().make_folder(folder)
        return folder


class TestMemory(InMemory):
    @pytest.fixture(autouse=True)
    def _nothing_stays(self) -> Iterator[None]:
        yield
        MEMORY.remove_folder("memory://contract")


class TestLocal(TargetMediumContract):
    medium = LOCAL


class Late(MemoryMedium):
    """Gives stamps out twice."""

    def next_stamp(self) -> tuple[int, int]:
        return 7, 7


class Overwriting(MemoryMedium):
    """Creates what is there."""

    def create(self, key: str, data: Any, *, size: int | None = None) -> None:
        self.write(key, [bytes(data).ljust(size or 0, b"\0")])


class Patching(MemoryMedium):
    """Writes whole objects over what is there, and leaves the rest."""

    def write(self, key: str, parts: Sequence[Any]) -> None:
        with self.writer(key) as handle:
            handle.write(parts, 0)


class Silent(MemoryMedium):
    """Finds everything."""

    def status(self, key: str, **options: Any) -> Status:
        try:
            return super().status(key, **options)
        except FileNotFoundError:
            return Status(0, 0, 0, 0)


class Deep(MemoryMedium):
    """Lists everything below."""

    def entries(self, folder: str) -> Any:
        found = super().entries(folder)
        more = super().entries(folder.rstrip("/") + "/a") if Listed("a", FOLDER) in found else []
        return [*found, *more]


class Careless(MemoryMedium):
    """Folders may be made again and again."""

    def make_folder(self, key: str) -> None:
        with suppress(FileExistsError):
            super().make_folder(key)


@pytest.mark.parametrize(
    ("medium", "test"),
    [
        pytest.param(Late(), "test_stamps_change_with_every_write", id="stamps stay"),
        pytest.param(Overwriting(), "test_of_many_who_create_one_succeeds", id="all create"),
        pytest.param(Patching(), "test_a_write_leaves_nothing_of_what_was_there", id="leaves old bytes"),
        pytest.param(Patching(), "test_replace", id="replaces in place"),
        pytest.param(Silent(), "test_absence_is_an_answer", id="finds everything"),
        pytest.param(Deep(), "test_names_directly_below_a_folder", id="lists too much"),
        pytest.param(Careless(), "test_folders_are_there_before_anything_is_in_them", id="folders twice"),
    ],
)
def test_a_spoiled_medium_fails(tmp_path: Path, medium: Medium, test: str) -> None:
    contract = InMemory()
    contract.make_medium = lambda: medium  # type: ignore[method-assign]
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(contract, test)(contract.root(tmp_path))


def test_keys_choose_their_medium() -> None:
    assert medium_of("memory://x/a.zarr") is MEMORY
    assert medium_of("/data/memory/a.zarr") is medium_of("a.npy") is LOCAL


def test_keys_of_other_media_are_refused() -> None:
    with pytest.raises(DiskError, match=r"/tmp/x.*EINVAL"):
        MEMORY.write("/tmp/x", [b""])
