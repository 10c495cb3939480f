"""Logs of accesses: what is logged, by several processes, through kills and damage, and at what cost."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import reblock
from reblock.api import access_log
from reblock.api.access_log import AccessLog
from reblock.api.log_reading import read_log
from reblock.api.recording import bounding_box
from reblock.errors import DiskError, UsageError


@pytest.fixture
def array(tmp_path: Path) -> str:
    path = str(tmp_path / "x.npy")
    np.save(path, np.arange(20 * 30).reshape(20, 30))
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_reads_are_logged(tmp_path: Path, array: str) -> None:
    log = tmp_path / "access.jsonl"
    opened = reblock.open(array, log=log)
    assert opened[3, 5:9].tolist() == [95, 96, 97, 98]
    assert opened[::-2, ...].shape == (10, 30)
    assert opened[0:0].shape == (0, 30)
    assert np.asarray(opened).shape == (20, 30)
    found = lines(log)
    assert [(one["start"], one["stop"]) for one in found] == [([3, 5], [4, 9]), ([1, 0], [20, 30]), ([0, 0], [20, 30])]
    assert {(one["array"], tuple(one["shape"]), one["op"]) for one in found} == {(array, (20, 30), "read")}


@pytest.mark.parametrize("kind", ["zarr", "h5py", "numpy", "reblock"])
def test_arrays_of_other_libraries(tmp_path: Path, array: str, kind: str) -> None:
    log, elements = tmp_path / "access.jsonl", np.load(array)
    name = array
    if kind == "zarr":
        thing = zarr.create_array(str(tmp_path / "x.zarr"), data=elements)
        name = str(tmp_path / "x.zarr")
    elif kind == "h5py":
        file = h5py.File(tmp_path / "x.h5", "w")
        thing = file.create_dataset("group/data", data=elements)
        name = f"{tmp_path / 'x.h5'}::group/data"
    elif kind == "numpy":
        thing = elements
        name = "<numpy.ndarray>"
    else:
        thing = reblock.open(array)
    recorded = reblock.record(thing, log=log)
    assert np.array_equal(recorded[2:5, 7], elements[2:5, 7])
    assert (recorded.shape, recorded.dtype, recorded.ndim) == (elements.shape, elements.dtype, 2)
    if kind != "reblock":
        recorded[0, 0] = 7
        assert recorded[0, 0] == 7
        assert [one["op"] for one in lines(log)] == ["read", "write", "read"]
    first = lines(log)[0]
    assert (first["start"], first["stop"]) == ([2, 7], [5, 8])
    assert first["array"].startswith(name.removesuffix(">"))


@pytest.mark.parametrize(
    ("key", "box"),
    [
        (..., ([0, 0, 0], [4, 5, 6])),
        ((), ([0, 0, 0], [4, 5, 6])),
        (2, ([2, 0, 0], [3, 5, 6])),
        (-1, ([3, 0, 0], [4, 5, 6])),
        ((slice(1, 3), ..., 4), ([1, 0, 4], [3, 5, 5])),
        ((slice(None, None, -2),), ([1, 0, 0], [4, 5, 6])),
        (([0, 2], slice(1, 2)), ([0, 1, 0], [3, 2, 6])),
        ((np.array([-1, 1]), 0, 0), ([1, 0, 0], [4, 1, 1])),
        (([True, False, True, False], 0), ([0, 0, 0], [3, 1, 6])),
        (np.eye(4, 5, dtype=bool), ([0, 0, 0], [4, 4, 6])),
        ((None, 1, 1, 1), ([1, 1, 1], [2, 2, 2])),
        (slice(2, 2), None),
        ([], None),
        (9, None),
        ((0, 0, 0, 0), None),
        ("field", ([0, 0, 0], [4, 5, 6])),
        (object(), None),
    ],
)
def test_the_box_around_an_index(key: Any, box: Any) -> None:
    assert bounding_box(key, (4, 5, 6)) == box


def test_damage_is_skipped_and_told(tmp_path: Path, array: str) -> None:
    log = tmp_path / "access.jsonl"
    reblock.open(array, log=log)[0]
    whole = log.read_bytes()
    bad = [b"{", b"[1]", b'{"array": 3}', b"\xff", whole[:-20], whole.replace(b"[0, 0]", b"[-1, 0]"), b"1" * 70_000]
    log.write_bytes(b"\n".join([*bad, whole, b"\n", whole[:30]]))
    accesses, notes = read_log(log, array, (20, 30))
    assert len(accesses) == 1
    assert len(notes) == 1
    assert "damaged lines" in notes[0]
    # The next writer begins a line of its own.
    reblock.open(array, log=log)[1]
    assert len(read_log(log, array, (20, 30))[0]) == 2


def test_whose_accesses(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    for name, shape in (("a", (3, 4)), ("a", (3, 4)), ("b", (3, 4)), ("c", (9,))):
        AccessLog(log, name, shape).note([0] * len(shape), [1] * len(shape))
    assert len(read_log(log, "a", (3, 4))[0]) == 2
    assert len(read_log(log, None, (9,))[0]) == 1
    accesses, notes = read_log(log, "d", (9,))
    assert (len(accesses), notes) == (1, (f"{log} has no accesses to d; those to c are used",))
    with pytest.raises(UsageError, match=r"no accesses to this array.*a \(2\), "):
        read_log(log, "d", (3, 4))
    with pytest.raises(UsageError, match="no accesses to this array"):
        read_log(log, "a", (5, 5))
    log.write_text("")
    with pytest.raises(UsageError, match="the log of accesses is empty"):
        read_log(log, "a", (5, 5))
    with pytest.raises(DiskError, match="reading the log of accesses"):
        read_log(tmp_path / "missing", "a", (5, 5))


def test_a_log_that_cannot_be_written(tmp_path: Path, array: str) -> None:
    with pytest.raises(DiskError, match="writing the log of accesses"):
        reblock.open(array, log=tmp_path)
    with pytest.raises(DiskError, match="writing the log of accesses"):
        reblock.open(array, log=tmp_path / "nowhere" / "x.jsonl")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_stops_the_log_and_not_the_read(array: str) -> None:
    opened = reblock.open(array, log="/dev/full")
    with pytest.warns(RuntimeWarning, match="accesses are not logged"):
        assert opened[0, 0] == 0
    assert opened[0, 1] == 1


def test_a_log_goes_with_its_array_to_another_process(tmp_path: Path, array: str) -> None:
    log = tmp_path / "access.jsonl"
    pickle.loads(pickle.dumps(reblock.open(array, log=log)))[4]
    assert lines(log)[0]["start"] == [4, 0]


def test_a_file_for_each_process_on_a_network_file_system(
    tmp_path: Path, array: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "is_network", lambda _: True)
    log = tmp_path / "access.jsonl"
    opened = reblock.open(array, log=log)
    opened[0]
    child = os.fork()
    if not child:
        opened[1]
        os._exit(0)
    os.waitpid(child, 0)
    names = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("access"))
    assert [name.rpartition(".")[2] for name in names] == sorted([str(os.getpid()), str(child)])
    assert len(read_log(log, array, (20, 30))[0]) == 2


WRITER = """
import sys
from reblock.api.access_log import AccessLog
log = AccessLog(sys.argv[1], "a", (10**6, 10**6))
print("go", flush=True)
for number in range(int(sys.argv[2])):
    log.note([number, int(sys.argv[3])], [number + 1, int(sys.argv[3]) + 1])
"""


def write(log: Path, count: int, who: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(log), str(count), str(who)], stdout=subprocess.PIPE, text=True
    )


def check_kills(log: Path, kills: int) -> None:
    """Kill one of two writers again and again: all lines are whole, and the other one's are all there."""
    for round_number in range(kills):
        steady, victim = write(log, 3000, 1), write(log, 10**9, 2)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(0.01 * (round_number % 7))
        victim.send_signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
        assert steady.wait() == 0
        for process in (steady, victim):
            assert process.stdout is not None
            process.stdout.close()
        accesses, notes = read_log(log, "a", (10**6, 10**6))
        assert notes == ()
        own = accesses.starts[:, 1]
        assert np.count_nonzero(own == 1) == 3000 * (round_number + 1)
        assert log.read_bytes().endswith(b"\n")
        assert (np.diff(accesses.starts[own == 1, 0][-3000:]) == 1).all()


def test_lines_survive_kill_and_two_writers(tmp_path: Path) -> None:
    check_kills(tmp_path / "access.jsonl", 1)


@pytest.mark.faults
def test_lines_survive_many_kills(tmp_path: Path) -> None:
    check_kills(tmp_path / "access.jsonl", 20)


def test_logging_is_quick(tmp_path: Path) -> None:
    """Less than 20 µs for a read, as the best of several rounds."""
    log = AccessLog(tmp_path / "access.jsonl", str(tmp_path / "some" / "array.zarr::group/name"), (1000, 2000, 3000, 4))
    rounds = []
    for _ in range(20):
        began = time.perf_counter()
        for number in range(200):
            log.note((number, 0, 17, 0), (number + 1, 2000, 900, 4))
        rounds.append((time.perf_counter() - began) / 200)
    assert min(rounds) < 20e-6
