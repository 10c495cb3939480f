"""The command in odd surroundings: no standard descriptors, no /proc."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import reblock

DATA = np.arange(16 * 12 * 10, dtype="f4").reshape(16, 12, 10)
RUN = f"{sys.executable} -m reblock run {{}} y.h5 --chunks 8,6,5 --memory 1MiB --codec gzip:1"
#: A folder in the place of /proc, in a space of names of its own.
HIDDEN = ["unshare", "--mount", "--map-root-user", "sh", "-c"]


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is read around HDF5, and one that HDF5 reads."""
    monkeypatch.chdir(tmp_path)
    for name, codec in (("x.h5", "gzip"), ("l.h5", "lzf")):
        with h5py.File(name, "w") as file:
            file.create_dataset("data", data=DATA, chunks=(4, 12, 5), compression=codec)


def is_right(source: str) -> bool:
    with h5py.File("y.h5") as file:
        return np.array_equal(file["data"], DATA) and reblock.verify(source, "y.h5").equal


@pytest.mark.parametrize(
    ("source", "closed"), [("x.h5", "<&- >&-"), ("x.h5", ">&- 2>&-"), ("x.h5", "<&- 2>&-"), ("l.h5", "<&- >&- 2>&-")]
)
def test_closed_standard_descriptors(source: str, closed: str) -> None:
    """What is opened must not be taken for them: not by the process that reads HDF5, not by who prints."""
    done = subprocess.run(["sh", "-c", f"{RUN.format(source)} {closed}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert is_right(source)


def test_a_process_of_others_without_standard_descriptors() -> None:
    code = "import reblock; reblock.repartition('x.h5', 'y.h5', chunks='8,6,5')"
    subprocess.run(["sh", "-c", f'{sys.executable} -c "{code}" <&- >&- 2>&-'], check=True)
    assert is_right("x.h5")


@pytest.mark.parametrize("source", ["x.h5", "l.h5"])
def test_a_hidden_proc(source: str) -> None:
    hide = "mount -t tmpfs none /proc"
    if subprocess.run([*HIDDEN, hide], capture_output=True, check=False).returncode:
        pytest.skip("only who may mount can hide /proc")
    done = subprocess.run([*HIDDEN, f"{hide} && {RUN.format(source)}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert is_right(source)
