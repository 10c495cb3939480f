"""Systems without POSIX: the package can be imported, and says what is missing instead of an ImportError."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reblock.storage.media import files

#: Takes away the modules and names that Python does not have on Windows.
WINDOWS = """
import os, sys
sys.modules.update(dict.fromkeys(["fcntl", "pwd", "grp", "resource", "termios"]))
names = "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_DIRECT register_at_fork geteuid getuid fork statvfs fdatasync"
names += " preadv pwritev pread pwrite posix_fadvise sched_getaffinity sysconf sync fchmod"
for name in names.split():
    if hasattr(os, name):
        delattr(os, name)
"""


def call(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WINDOWS + script], capture_output=True, text=True, check=False)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return call(f"from reblock.cli import main\nsys.argv = ['reblock', *{words!r}]\nmain()")


def test_the_package_can_be_imported() -> None:
    done = call("import reblock\nprint(reblock.__version__, reblock.ReblockError.__name__)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["open", "plan", "run", "verify", "status"])
def test_what_needs_posix_says_so(name: str) -> None:
    done = call(f"import reblock\ntry:\n    reblock.{name}\nexcept reblock.UsageError as error:\n    print(error)")
    assert done.returncode == 0, done.stderr
    assert "needs a POSIX system" in done.stdout
    assert "fcntl, pwd, resource" in done.stdout


@pytest.mark.parametrize(
    "words", [["demo"], ["run", "a", "b"], ["info", "a"], ["bench", "device", "."], ["clean", "x"]]
)
def test_commands_say_that_posix_is_needed(words: list[str]) -> None:
    done = command(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("reblock: error: reblock needs a POSIX system such as Linux or macOS")
    assert done.stderr.count("\n") == 1


def test_help_and_version_need_nothing() -> None:
    assert "Usage: reblock" in command("--help").stdout
    assert "Usage: reblock" in command().stdout
    done = command("--version")
    assert (done.returncode, done.stdout.splitlines()[0].split()[0]) == (0, "reblock")
    assert "needs a POSIX system" in done.stdout


@pytest.mark.parametrize("lacking", ["fdatasync", "request", "nothing"])
def test_files_are_made_durable_by_the_calls_that_there_are(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS has no fdatasync, and a request that does more than its fsync, which not every file system knows."""
    made: list[str] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _, name=name: made.append(name))
    if lacking == "fdatasync":
        monkeypatch.delattr(os, "fdatasync")
    if lacking == "request":
        monkeypatch.setattr(files, "_FULL_SYNC", 0x7FFF)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        files.flush(descriptor)
        files.flush_data(descriptor)
    finally:
        os.close(descriptor)
    assert made == ["fsync", "fdatasync" if lacking == "nothing" else "fsync"]
