"""The process that reads HDF5 files in our place: what kills it is one typed error, and the next file is read."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from corpus.cases import SAMPLE
from corpus.make import CASES, make
from reblock.errors import CorruptError, DiskError, ExternalError, FormatError, StorageError
from reblock.model import element
from reblock.storage.hdf5.format import FORMAT
from reblock.storage.hdf5.sandbox import reader as hdf5_reader
from reblock.storage.hdf5.sandbox import switchboard
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.storage.hdf5.sandbox.wire import pack, pack_error, unpack, unpack_error
from reblock.testing.compare import same_value
from reblock.testing.reference_io import read_array


def good(folder: Path, **options: Any) -> str:
    with h5py.File(folder / "good.h5", "w") as file:
        file.create_dataset("x", data=SAMPLE, chunks=(4, 4), **options)
    return str(folder / "good.h5")


@pytest.mark.parametrize("name", ["hdf5/heap-zeros", "hdf5/index-tree-loop"])
def test_a_loop_and_a_crash(tmp_path: Path, name: str) -> None:
    """HDF5 2.0 loops for ever in the first and runs out of stack in the second; where it does not, it must refuse."""
    path, _, inner = make(CASES[name], tmp_path / "bad").partition("::")
    began = time.process_time()
    with pytest.raises(StorageError, match=re.escape(path)):
        read_array(FORMAT.open(path, inner))
    assert time.process_time() - began < 1
    for codec in ("gzip", "lzf"):
        assert (read_array(FORMAT.open(good(tmp_path, compression=codec), "x")) == SAMPLE).all()


def test_neither_h5py_nor_hdf5_is_loaded_here(tmp_path: Path) -> None:
    path = good(tmp_path, compression="gzip", shuffle=True)
    program = f"""if True:
        import sys, reblock
        assert reblock.open({path!r})[7, 7] == 63
        sys.exit("h5py" in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_server_that_is_gone_is_replaced(tmp_path: Path) -> None:
    path = good(tmp_path)
    FORMAT.open(path, "x")
    server = switchboard.SWITCHBOARD._server
    assert server is not None
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.wait()
    # The process that waits for the first file would do without the server.
    other = shutil.copy(path, tmp_path / "other.h5")
    assert (read_array(FORMAT.open(str(other), "x")) == SAMPLE).all()
    assert switchboard.SWITCHBOARD._server is not server


def test_a_process_waits_for_its_file_without_it(tmp_path: Path) -> None:
    path = good(tmp_path)
    board = switchboard.SWITCHBOARD
    FORMAT.open(path, "x")
    assert board._parked is not None
    channel = board._parked[1][0]
    with h5py.File(path, "r+") as file:  # it is not locked
        file["x"][0, 0] = SAMPLE[0, 0]
    # The file has changed, so a new process reads it; it is used twice then.
    assert (read_array(FORMAT.open(path, "x")) == SAMPLE).all()
    assert board._parked[1][0] is not channel
    channel = board._parked[1][0]
    FORMAT.open(path, "x")
    assert board._parked[1][0] is channel
    # One that has died while it waited is noticed.
    channel.shutdown(socket.SHUT_WR)
    while channel.recv(1, socket.MSG_PEEK):
        pass
    assert (read_array(FORMAT.open(path, "x")) == SAMPLE).all()


def test_a_process_that_failed_is_not_used_again(tmp_path: Path) -> None:
    path = good(tmp_path)
    FORMAT.open(path, "x")
    before = switchboard.SWITCHBOARD._parked
    with pytest.raises(FormatError):
        FORMAT.open(path, "nothing")
    assert before is not None
    assert before[1][0].fileno() == -1
    assert switchboard.SWITCHBOARD._parked is None


def test_a_process_that_dies_between_two_boxes_is_replaced(tmp_path: Path) -> None:
    store = FORMAT.open(good(tmp_path, compression="lzf"), "x")
    assert (read_array(store) == SAMPLE).all()
    reader = store._foreign._reader
    assert reader is not None
    reader.close()
    assert (read_array(store) == SAMPLE).all()


def test_a_store_is_read_by_many_threads_and_processes(tmp_path: Path) -> None:
    paths = [good(tmp_path, compression=codec) for codec in ("gzip",)] * 20
    with ThreadPoolExecutor(8) as pool:
        assert all((read_array(store) == SAMPLE).all() for store in pool.map(lambda p: FORMAT.open(p, "x"), paths))
    store = FORMAT.open(good(tmp_path, compression="lzf"), "x")
    read_array(store)
    child = os.fork()
    if child == 0:
        # Not pytest's business any more: the answer is the exit code.
        code = 1
        try:
            code = 0 if (read_array(store) == SAMPLE).all() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (read_array(pickle.loads(pickle.dumps(store))) == SAMPLE).all()
    assert (read_array(store) == SAMPLE).all()


def test_the_server_ends_with_us(tmp_path: Path) -> None:
    program = f"""if True:
        import os
        from reblock.storage.hdf5.sandbox import switchboard
        from reblock.storage.hdf5.format import FORMAT
        FORMAT.open({good(tmp_path)!r}, "x")
        print(switchboard.SWITCHBOARD._server._process.pid, flush=True)
        os.kill(os.getpid(), ENDS)
    """
    for ends in (signal.SIGKILL, signal.SIGTERM, 0):
        run = subprocess.run(
            [sys.executable, "-c", program.replace("ENDS", str(int(ends)))], capture_output=True, check=False
        )
        pid, deadline = int(run.stdout), time.monotonic() + 20
        while time.monotonic() < deadline and Path(f"/proc/{pid}/stat").exists():
            time.sleep(0.05)
        assert not Path(f"/proc/{pid}/stat").exists()


@pytest.mark.parametrize(
    "answer",
    [b"", b"no JSON\n", b"[]\n", b"{}\n", b'{"answer": 3, "bytes": 100}\nshort', b'{"answer": 1, "bytes": "x"}\n'],
)
def test_answers_that_make_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(switchboard.SWITCHBOARD, "connect", lambda: ours)
    theirs.sendall(b'{"ready": true}\n' + answer)
    theirs.shutdown(socket.SHUT_WR)
    reader = Reader(good(tmp_path))
    with pytest.raises(CorruptError, match=r"good\.h5"):
        reader.describe("x")
    assert not reader.usable
    theirs.close()


def test_a_server_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_reader, "SWITCHBOARD", switchboard.Switchboard())
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(StorageError, match="/bin/true"):
        FORMAT.open(good(tmp_path), "x")
    hdf5_reader.SWITCHBOARD.stop()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(DiskError, match="ENOENT"):
        FORMAT.open(good(tmp_path), "x")


def test_errors_come_over_as_they_were() -> None:
    for error in (
        FormatError("a"),
        CorruptError("b"),
        ExternalError("c"),
        DiskError("d (errno 5, EIO)", path="p", errno=5),
    ):
        again = unpack_error(pack_error(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert type(unpack_error(["Nonsense", "x", "", 0])) is CorruptError


@pytest.mark.parametrize(
    "value",
    [
        "é\udcff", "", ["a", ["b"]], np.bytes_(b"\xffa"), np.bytes_(b""), np.float32(0.1), np.bool_(True), np.int8(-3),
        np.arange(6, dtype=">i2").reshape(2, 3), np.zeros((0, 3), "<f8"), np.array(b"abc"), np.void(b"ab"),
        np.float64("nan"), np.longdouble(1) / 3, np.array([1 + 2j], ">c8"),
    ],
    ids=repr,
)  # fmt: skip
def test_values_come_over_as_they_were(value: Any) -> None:
    again = unpack(pack(value))
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, bytes):
        # A long double has bytes that are no part of its value.
        before, after = (element(one, value.dtype).tobytes() for one in (value, again))
        assert (type(again), again.dtype, again.shape, after) == (type(value), value.dtype, value.shape, before)
    else:
        assert type(again) is type(value)
        assert same_value(again, value)
