"""The switchboard: starts the server of this process on first use, and connects readers with processes for one file.

The process that became free last waits for another reader of the same file.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from reblock.errors import StorageError
from reblock.storage.hdf5.sandbox import wire
from reblock.storage.media.files import disk_errors

_PROGRAM = (
    "import json, signal, sys; "
    # SLURM signals every process of a job. This one ends with its parent, which still needs it to stop cleanly.
    "[signal.signal(getattr(signal, name), signal.SIG_IGN) for name in ('SIGINT', 'SIGTERM', 'SIGHUP')]; "
    "sys.path[:] = json.loads(sys.argv.pop()); from reblock.storage.hdf5.sandbox.server import main; main()"
)
#: Environment variables of HDF5; all except that of locks could lead it to other files or to plugins.
_VARIABLES = ("HDF5_USE_FILE_LOCKING",)
#: The first descriptor that is not standard input, output or error.
_BEYOND_STANDARD = 3
#: A process without a file: its socket, the socket as a stream, and how often it was used.
Waiting = tuple[socket.socket, Any, int]


def _dismiss(parked: tuple[Any, Waiting] | None) -> None:
    """End a process that waits; it has no file, so nobody waits for its end."""
    if parked is not None:
        channel, stream, _ = parked[1]
        with suppress(OSError):
            stream.close()
        channel.close()


def not_started() -> StorageError:
    """The error of a process that ends before it has answered."""
    return StorageError(f"the process that reads HDF5 files ends as soon as it starts ({sys.executable})")


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets, neither with the number of a closed standard descriptor, which a new process would replace."""
    one, two = socket.socketpair()
    with one, two:
        ours, theirs = (fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, _BEYOND_STANDARD) for end in (one, two))
    return socket.socket(fileno=ours), socket.socket(fileno=theirs)


class _Server:
    """The server process, shared by all threads of this process."""

    def __init__(self) -> None:
        self.control, theirs = _socket_pair()
        words = [sys.executable, "-I", "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)]
        variables = {k: v for k, v in os.environ.items() if not k.startswith("HDF5_") or k in _VARIABLES}
        try:
            with theirs, disk_errors("start", sys.executable):
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
                    words,
                    # The server does not need the threads of numerical libraries, which take time to start.
                    env={**variables, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    # Ctrl-C must not reach the server: the parent still needs it to stop cleanly.
                    process_group=0,
                )
        except BaseException:
            self.control.close()
            raise

    def connect(self) -> socket.socket:
        """A socket to a new fork."""
        ours, theirs = _socket_pair()
        try:
            with theirs:
                socket.send_fds(self.control, [b"+"], [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        return ours

    def stop(self) -> None:
        """Close the connection, and wait for the process to end."""
        with suppress(OSError):
            # Closing is not enough if a fork of this process also has the socket.
            self.control.shutdown(socket.SHUT_RDWR)
        self.control.close()
        self._process.wait()


class Switchboard:
    """The server of this process, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._parked: tuple[Any, Waiting] | None = None

    def park(self, file: object, waiting: Waiting) -> None:
        """Keep a process that may open the same file again; the one that waited until now ends."""
        with self._lock:
            before, self._parked = self._parked, (file, waiting)
        _dismiss(before)

    def take(self, file: object) -> Waiting | None:
        """The process that waits for a file, if it still runs."""
        with self._lock:
            if self._parked is None or self._parked[0] != file:
                return None
            (_, waiting), self._parked = self._parked, None
        with suppress(BlockingIOError):
            waiting[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            _dismiss((file, waiting))
            return None
        return waiting

    def connect(self) -> socket.socket:
        """A socket to a process for one file; a server that has ended is replaced."""
        with self._lock:
            if self._server is not None:
                try:
                    return self._server.connect()
                except OSError:
                    self._server.stop()
            self._server = _Server()
            try:
                return self._server.connect()
            except OSError:
                raise not_started() from None

    def stop(self) -> None:
        """End the server."""
        _dismiss(self._parked)
        self._parked = None
        if self._server is not None:
            self._server.stop()
            self._server = None

    def leave(self) -> None:
        """In a fork of this process: forget the parent's server, and the lock that another thread may have held."""
        self._parents = self._server, self._parked
        self._server, self._parked, self._lock = None, None, threading.Lock()


def start() -> None:
    """Start the server, and wait until it is ready."""
    with SWITCHBOARD.connect() as channel, channel.makefile("rwb") as stream:
        if wire.receive(stream) is None:
            raise not_started()


SWITCHBOARD = Switchboard()
atexit.register(SWITCHBOARD.stop)
os.register_at_fork(after_in_child=SWITCHBOARD.leave)
