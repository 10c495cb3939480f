"""The lock of a target, while others come and go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reblock.runs.lock import Lock
from reblock.storage.media.private import PrivateFolder


def test_a_lock_that_is_made_while_the_folder_is_looked_at_is_no_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, path = PrivateFolder.look, tmp_path / "folder" / "lock"

    def late(self: PrivateFolder, name: str) -> os.stat_result | None:
        found = real(self, name)
        path.touch()
        return found

    monkeypatch.setattr(PrivateFolder, "look", late)
    lock = Lock(str(path))
    lock.take("y.zarr")
    assert lock.is_held
    lock.release()
