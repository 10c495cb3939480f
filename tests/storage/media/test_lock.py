"""The lock of a target, while others come and go."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reblock.errors import LockedError
from reblock.storage.media.lock import FileLock, who_holds
from reblock.storage.media.private import PrivateFolder


def test_one_holds_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "lock")
    assert who_holds(path) is None
    one, two = FileLock(path), FileLock(path)
    one.take("y")
    assert f"process {os.getpid()} on" in str(who_holds(path))
    began = time.monotonic()
    with pytest.raises(LockedError, match=f"y is being written by another run .process {os.getpid()} "):
        two.take("y")
    assert time.monotonic() - began < 1
    one.release()
    assert who_holds(path) is None
    two.take("y")
    two.release()


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    code = (
        "import sys, time; from reblock.storage.media.lock import FileLock; "
        "lock = FileLock(sys.argv[1]); lock.take('y'); "
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(LockedError, match=f"process {process.pid} "):
            FileLock(path).take("y")
        process.kill()
        process.wait()
        lock = FileLock(path)
        lock.take("y")
        lock.release()


def test_a_lock_that_is_made_while_the_folder_is_looked_at_is_no_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, path = PrivateFolder.look, tmp_path / "folder" / "lock"

    def late(self: PrivateFolder, name: str) -> os.stat_result | None:
        found = real(self, name)
        path.touch()
        return found

    monkeypatch.setattr(PrivateFolder, "look", late)
    lock = FileLock(str(path))
    lock.take("y.zarr")
    assert lock.is_held
    lock.release()
