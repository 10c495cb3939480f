"""The server that reads HDF5 files: it forks for each file, and each fork is limited in time and memory.

A hostile file that makes HDF5 crash, loop or take gigabytes harms only its fork.
"""

from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from reblock.errors import CorruptError, FormatError, ReblockError
from reblock.storage.hdf5.file import (
    Elsewhere,
    failures,
    find_dataset,
    library,
    list_strangers,
    open_bytes,
    open_file,
    parts_of,
    resolve,
)
from reblock.storage.hdf5.index import ask_index, is_stored, sweep_index
from reblock.storage.hdf5.metadata import facts_of
from reblock.storage.hdf5.plugins import load_plugins
from reblock.storage.hdf5.sandbox import wire
from reblock.storage.hdf5.survey import survey
from reblock.storage.hdf5.table_rows import read_rows
from reblock.storage.hdf5.tree_facts import tree_facts

#: Processor time that metadata may take: a base, and more for long files.
BASE_SECONDS = 0.3
_BYTES_PER_SECOND = 8 << 20
_MOST_SECONDS = 60.0
#: How many times slower some plugins decode than HDF5's own filters.
_SLOWER = 8
#: Memory that metadata may take, beyond the process's memory at its start.
_MORE_BYTES = 96 << 20
#: The precision with which that memory is measured.
_STEP_BYTES = 1 << 20


def main() -> None:
    """Fork a session for each socket that arrives on the socket whose descriptor is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    library()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    with suppress(ConnectionError):
        while True:
            greeting, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not greeting:
                return
            if os.fork() == 0:
                control.close()
                try:
                    serve(socket.socket(fileno=descriptors[0]))
                finally:
                    os._exit(0)
            os.close(descriptors[0])


def serve(channel: socket.socket) -> None:
    """Answer the requests for one file until the other side closes the connection."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with channel, channel.makefile("rwb") as stream:
        wire.send(stream, {"ready": True})
        session = _Session(stream)
        while (request := wire.receive(stream)) is not None:
            try:
                session.answer(request)
            except ReblockError as error:
                wire.send(stream, {"error": wire.pack_error(error)})
            except MemoryError:
                greedy = CorruptError(f"{session.path}: HDF5 wants more memory than the file needs: it is damaged")
                wire.send(stream, {"error": wire.pack_error(greedy)})
        session.close()


class _Session:
    """One open file."""

    def __init__(self, stream: wire.Stream) -> None:
        self.path = ""
        self._stream = stream
        self._room = -1
        self._file: Any = None
        self._dataset: Any = None
        self._plugins = 0

    def answer(self, request: dict[str, Any]) -> None:
        """Execute a request within its limits."""
        todo: dict[str, Callable[[dict[str, Any]], None]] = {
            "describe": self._describe,
            "strangers": self._strangers,
            "survey": self._survey,
            "tree": self._tree,
            "rows": self._rows,
            "reopen": self._reopen,
            "sweep": self._sweep,
            "ask": self._ask,
            "read": self._read,
            "stored": self._stored,
            "release": self._release,
        }
        pace = _BYTES_PER_SECOND / (_SLOWER if self._plugins else 1)
        seconds = min(BASE_SECONDS + request["cost"] / pace, _MOST_SECONDS * (_SLOWER if self._plugins else 1))
        if request["room"] > self._room:
            self._room = request["room"]
            _limit_memory(_MORE_BYTES + self._room)
        # Processor time, because a busy machine is not a reason to refuse a file. The signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        todo[request["do"]](request)
        signal.setitimer(signal.ITIMER_PROF, 0)

    def close(self) -> None:
        """Close the file and release its lock, before anybody learns that it is closed."""
        signal.setitimer(signal.ITIMER_PROF, BASE_SECONDS)
        if self._file is not None:
            self._file.close()
        self._file = self._dataset = None

    def _release(self, request: dict[str, Any]) -> None:  # noqa: ARG002 - it has no settings
        self.close()
        self._plugins = 0
        wire.send(self._stream, {"answer": True})

    def _open(self, request: dict[str, Any]) -> Any:
        self.path = request["path"]
        size = request.get("size")
        self._file = open_file(self.path, "r") if size is None else open_bytes(wire.SentFile(self._stream, size))
        return self._file

    def _describe(self, request: dict[str, Any]) -> None:
        shown = request["shown"]
        with failures("open", shown):
            try:
                name, self._dataset = find_dataset(self._open(request), shown, request["inner"])
            except Elsewhere as link:
                wire.send(self._stream, {"answer": {"link": [link.file, link.path, link.at]}})
                return
            self._plugins = load_plugins(self._dataset, f"{shown}::{name}")
            facts = facts_of(self._dataset, f"{shown}::{name}")
        wire.send(self._stream, {"answer": {"name": name, **facts}})

    def _strangers(self, request: dict[str, Any]) -> None:
        shown = request["shown"]
        with failures("open", shown):
            try:
                found = list(list_strangers(self._open(request), shown))
            except Elsewhere as link:
                raise FormatError(f"{shown} is not an array in this file: {link}") from None
        wire.send(self._stream, {"answer": found})

    def _survey(self, request: dict[str, Any]) -> None:
        """Send all objects of the file at once; each has the time of a whole request."""
        shown, nodes = request["shown"], []
        seconds = signal.getitimer(signal.ITIMER_PROF)[0]
        with failures("open", shown):
            try:
                for node in survey(self._open(request), shown, request["inner"]):
                    nodes.append(node)
                    signal.setitimer(signal.ITIMER_PROF, seconds)
            except Elsewhere as link:
                raise FormatError(f"{shown} is not a group in this file: {link}") from None
        wire.send(self._stream, {"answer": nodes})

    def _tree(self, request: dict[str, Any]) -> None:
        """Send the objects of the file one by one; each has the time of a whole request."""
        shown = request["shown"]
        seconds = signal.getitimer(signal.ITIMER_PROF)[0]
        with failures("open", shown):
            try:
                for facts in tree_facts(self._open(request), shown, request["inner"]):
                    wire.send(self._stream, {"answer": facts})
                    signal.setitimer(signal.ITIMER_PROF, seconds)
            except Elsewhere as link:
                raise FormatError(f"{shown}: {link}; name that file itself") from None
        wire.send(self._stream, {"answer": None})

    def _rows(self, request: dict[str, Any]) -> None:
        shown = request["shown"]
        with failures("read", shown, CorruptError):
            dataset = resolve(self._open(request), shown, parts_of(request["inner"]))
            self._plugins = load_plugins(dataset, shown, elements=True)
            start, stop, limit = request["rows"]
            count, data = read_rows(dataset, start, stop, limit, text=request["text"])
        wire.send(self._stream, {"answer": count}, data)

    def _reopen(self, request: dict[str, Any]) -> None:
        shown = request["shown"]
        with failures("open", shown):
            try:
                self._dataset = resolve(self._open(request), shown, parts_of(request["inner"]))
            except Elsewhere as link:
                raise FormatError(f"{shown} has changed: {link.at} is now a link to another file") from None
            self._plugins = load_plugins(self._dataset, f"{shown}::{request['inner']}")
        wire.send(self._stream, {"answer": True})

    def _sweep(self, request: dict[str, Any]) -> None:
        with failures("read the chunk index of", request["shown"], CorruptError):
            swept = sweep_index(self._dataset, lambda rows: wire.send(self._stream, {"answer": "rows"}, rows))
        wire.send(self._stream, {"answer": "done" if swept else "ask"})

    def _ask(self, request: dict[str, Any]) -> None:
        with failures("read the chunk index of", request["shown"], CorruptError):
            found = ask_index(self._dataset, tuple(request["index"]), request["shift"])
        wire.send(self._stream, {"answer": found})

    def _read(self, request: dict[str, Any]) -> None:
        with failures("read", request["shown"], CorruptError):
            box = tuple(slice(*numbers) for numbers in request["box"])
            # HDF5 may skip elements that are not stored: these are zero, not old memory.
            dtype = np.dtype(request["dtype"])
            if dtype.kind == "S" and self._dataset.dtype.str == dtype.str:
                # HDF5 does not convert text from one encoding to another.
                dtype = self._dataset.dtype
            out = np.zeros([len(range(s.start, s.stop, s.step)) for s in box], dtype)
            self._dataset.read_direct(out, source_sel=box)
            stored = request["chunk"] is None or is_stored(self._dataset, tuple(request["chunk"]))
        wire.send(self._stream, {"answer": stored}, out.reshape(-1).view(np.uint8).data)

    def _stored(self, request: dict[str, Any]) -> None:
        with failures("read", request["shown"], CorruptError):
            first = tuple(i * c for i, c in zip(request["chunk"], self._dataset.chunks, strict=True))
            data = self._dataset.id.read_direct_chunk(first)[1]
        start, stop = request["run"]
        wire.send(self._stream, {"answer": len(data)}, data[start:stop])


def _limit_memory(more: int) -> None:
    """Limit this process to `more` bytes of data beyond its current size."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = _data_bytes(hard) + more
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _data_bytes(hard: int) -> int:
    """Bytes of data of this process, or a little more.

    Found by trying which limits leave no room, because /proc may be hidden.
    """
    low, high = 0, _STEP_BYTES
    while not _leaves_room(high, hard):
        low, high = high, 2 * high
    while high - low > _STEP_BYTES:
        middle = (low + high) // 2
        low, high = (low, middle) if _leaves_room(middle, hard) else (middle, high)
    return high


def _leaves_room(limit: int, hard: int) -> bool:
    """Whether one more page can be allocated under a limit."""
    if limit > hard != resource.RLIM_INFINITY:
        return True
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        return False
    return True
