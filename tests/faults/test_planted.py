"""What another user plants in a shared folder: nothing of it is followed, waited for, emptied or overwritten.

The run is root's and the plants are nobody's, as in a shared folder where anybody may make names. Judges are the
victims, compared before and after, and the kernel: no call that changes a file names a path outside the target's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import ReblockError
from reblock.runs.scratch import kept_folder
from reblock.storage.media.private import PrivateFolder
from tracing import STRACE, traces

NOBODY = 65534
other_user = pytest.mark.skipif(os.geteuid() != 0, reason="planting as another user takes root")


@pytest.fixture(params=[0o1777, 0o777], ids=["sticky", "not sticky"])
def shared(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder that everybody may write in, and victims beside it that only root may."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith("pytest-of-"):
            folder.chmod(0o755)
            break
        folder.chmod(folder.stat().st_mode | 0o055)
    np.save(tmp_path / "x.npy", np.arange(4096, dtype="i4").reshape(64, 64))
    victims = tmp_path / "victims"
    (victims / "folder" / "array").mkdir(parents=True)
    for name in ("file", "folder/thesis", "folder/lock", "folder/journal", "folder/array/0", "folder/0"):
        (victims / name).write_text("precious")
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(request.param)
    return folder


def as_nobody(todo: Callable[[], None]) -> None:
    """Do something as another user."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            todo()
        except BaseException as error:  # noqa: BLE001 - told by the exit code
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def seen(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """All that can be seen of the victims."""
    found = {}
    for base, _, names in os.walk(folder):
        for path in (Path(base), *(Path(base) / name for name in names)):
            look = path.lstat()
            found[str(path)] = (
                look.st_ino,
                look.st_mode,
                look.st_ctime_ns,
                b"" if path.is_dir() else path.read_bytes(),
            )
    return found


# ---------------------------------------------------------------- the plants
def _staging(plant: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    """A plant inside a staging folder of theirs."""

    def make(shared: Path, victims: Path) -> None:
        folder = shared / ".v.zarr.reblock"
        folder.mkdir()
        folder.chmod(0o777)
        plant(folder, victims)

    return make


def _scratch(shared: Path) -> Path:
    return Path(kept_folder(str(shared / "v.zarr"), str(shared)))


def _tree(path: Path) -> None:
    path.mkdir()
    (path / "0").mkdir()
    (path / "0" / "0_0.bin").write_text("theirs")


PLANTS: dict[str, Callable[[Path, Path], None]] = {
    "staging is a link to a folder": lambda s, v: (s / ".v.zarr.reblock").symlink_to(v / "folder"),
    "staging is a link to a file": lambda s, v: (s / ".v.zarr.reblock").symlink_to(v / "file"),
    "staging is a link to nothing": lambda s, v: (s / ".v.zarr.reblock").symlink_to(v / "new"),
    "staging is a link to itself": lambda s, v: (s / ".v.zarr.reblock").symlink_to(".v.zarr.reblock"),
    "staging is a pipe": lambda s, v: os.mkfifo(s / ".v.zarr.reblock"),
    "staging is a file": lambda s, v: (s / ".v.zarr.reblock").write_text("theirs") and None,
    "staging is theirs": _staging(lambda s, v: None),
    "lock is a link": _staging(lambda s, v: (s / "lock").symlink_to(v / "file")),
    "lock is a link to nothing": _staging(lambda s, v: (s / "lock").symlink_to(v / "new")),
    "lock is a pipe": _staging(lambda s, v: os.mkfifo(s / "lock")),
    "lock is a folder": _staging(lambda s, v: (s / "lock").mkdir()),
    "journal is a link": _staging(lambda s, v: (s / "journal").symlink_to(v / "file")),
    "journal is a pipe": _staging(lambda s, v: os.mkfifo(s / "journal")),
    "new journal is a link": _staging(lambda s, v: (s / "journal.new").symlink_to(v / "file")),
    "array is a link": _staging(lambda s, v: (s / "array").symlink_to(v / "folder")),
    "scratch is a link": _staging(lambda s, v: (s / "scratch").symlink_to(v / "folder")),
    "replaced is a link": _staging(lambda s, v: (s / "replaced").symlink_to(v / "folder")),
    "done is a link": lambda s, v: (s / ".v.zarr.reblock-done").symlink_to(v / "file"),
    "done is a pipe": lambda s, v: os.mkfifo(s / ".v.zarr.reblock-done"),
    "done is theirs": lambda s, v: (s / ".v.zarr.reblock-done").write_text("{}") and None,
    "target is a link": lambda s, v: (s / "v.zarr").symlink_to(v / "folder"),
    "target is a link to nothing": lambda s, v: (s / "v.zarr").symlink_to(v / "new"),
    "kept scratch is a link": lambda s, v: _scratch(s).symlink_to(v / "folder"),
    "kept scratch is a pipe": lambda s, v: os.mkfifo(_scratch(s)),
    "kept scratch is theirs": lambda s, v: _tree(_scratch(s)),
}
#: Calls that change files, and what they name.
CHANGES = re.compile(
    r"\b(?:mkdir|rmdir|unlink|rename|link|symlink|chmod|chown|truncate|mknod|utime)\w*\(|\bO_(?:WRONLY|RDWR|CREAT)\b"
)


#: Plants that are tried in every run of the tests; the others with the faults.
SAMPLE = ("lock is a link", "kept scratch is a link")


@other_user
@traces
@pytest.mark.parametrize(
    "plant", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.faults) for name in PLANTS]
)
def test_nothing_outside_is_touched(shared: Path, plant: str) -> None:
    victims, log = shared.parent / "victims", shared.parent / "log"
    as_nobody(lambda: PLANTS[plant](shared, victims))
    before = seen(victims)
    words = ["run", str(shared.parent / "x.npy"), str(shared / "v.zarr"), "--scratch", str(shared)]
    words += ["--transpose", "1,0", "--strategy", "multipass", "--chunks", "1,64", "--memory", "8kB"]
    traced = [STRACE or "", "-f", "-qq", "-y", "-e", "trace=file", "-o", str(log)]
    program = "import sys; from reblock.cli import main; main()"
    for more in ([*words], [*words, "--overwrite"], ["clean", str(shared / "v.zarr")]):
        subprocess.run([*traced, sys.executable, "-c", program, *more], timeout=60, capture_output=True, check=False)
        touched = [line for line in log.read_text().splitlines() if "/victims/" in line and CHANGES.search(line)]
        assert not touched
    assert seen(victims) == before


@other_user
@pytest.mark.parametrize("plant", PLANTS)
def test_plants_are_refused_by_name(shared: Path, plant: str) -> None:
    victims = shared.parent / "victims"
    as_nobody(lambda: PLANTS[plant](shared, victims))
    before = seen(victims)
    options = {"transpose": "1,0", "strategy": "multipass", "chunks": "1,64", "memory": 8000, "scratch": str(shared)}
    with pytest.raises(ReblockError, match=re.escape(str(shared))):
        reblock.repartition(shared.parent / "x.npy", shared / "v.zarr", **options)
    assert seen(victims) == before


# ---------------------------------------------------------------- without another user
def test_staging_is_for_us_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = PrivateFolder.make(str(tmp_path / "made"))
    finally:
        os.umask(before)
    assert os.stat(folder.path).st_mode & 0o777 == 0o700
    folder.close()


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ".y.zarr.reblock"
    folder.mkdir()
    folder.chmod(0o775)
    np.save(tmp_path / "x.npy", np.arange(6))
    with pytest.raises(ReblockError, match="is writable by others"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr")
    assert folder.stat().st_mode & 0o777 == 0o775


def test_a_folder_of_ours_that_is_no_staging_is_not_emptied(tmp_path: Path) -> None:
    """Where others may rename, they can put a folder of ours into the place of the staging folder."""
    folder = tmp_path / ".y.zarr.reblock"
    (folder / "array").mkdir(parents=True)
    (folder / "array" / "thesis").write_text("precious")
    np.save(tmp_path / "x.npy", np.arange(6))
    with pytest.raises(ReblockError, match="not a folder that reblock made"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr")
    assert (folder / "array" / "thesis").read_text() == "precious"


def test_what_is_not_ours_stays_in_the_staging_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".y.zarr.reblock"
    folder.mkdir(0o700)
    (folder / "lock").touch()
    (folder / "thesis").write_text("precious")
    np.save(tmp_path / "x.npy", np.arange(6))
    report = reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr")
    assert any("thesis" in note for note in report.notes)
    assert (folder / "thesis").read_text() == "precious"


def test_a_folder_that_is_moved_away_ends_the_run(tmp_path: Path) -> None:
    """In a shared folder that is not sticky others may move it, and put another in its place."""
    tmp_path.chmod(0o777)
    np.save(tmp_path / "x.npy", np.arange(1 << 20).reshape(1024, 1024))
    staging, victim = tmp_path / ".y.zarr.reblock", tmp_path / "victim"
    moved = False

    def move(*_: object) -> None:
        nonlocal moved
        if not moved and (staging / "array").exists():
            moved = True
            staging.rename(tmp_path / "moved")
            staging.mkdir()
            victim.mkdir()
            (staging / "array").symlink_to(victim)

    with pytest.raises(ReblockError, match="was moved or replaced"):
        reblock.repartition(
            tmp_path / "x.npy", tmp_path / "y.zarr", chunks="64,64", codec="none", memory="1MB", progress=move
        )
    assert moved
    assert list(victim.iterdir()) == []
    assert not (tmp_path / "y.zarr").exists()
    assert (staging / "array").is_symlink()
