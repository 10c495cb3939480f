"""Reads other people's HDF5 files in a separate process, so that HDF5's crashes and loops do not affect ours.

::

    this process                    server (started once)         a fork for each open file
    Reader(path) ─ a socket ──────▶ fork ───────────────────────▶ h5py.File(path)
      bytes of an object of a store ─────────────────────────────▶ h5py.File(file object)
      .describe() ◀── JSON ─────────────────────────────────────── shape, type, attributes, ...
      .sweep()    ◀── JSON and raw bytes ───────────────────────── where the chunks lie
      .read()     ◀── JSON and raw bytes ───────────────────────── elements that only HDF5 can decode

An object in a store is opened there as well, but the process sends no requests: it gets the bytes that HDF5 wants from
us, and can get no others. The engine reads bytes that we can decode directly from the file. Starting the server takes a
tenth of a second, a fork a few milliseconds. So the last fork that became free waits, without the file, for another
reader of the same file: many arrays of a dataset are opened by few forks. See `server` for the limits of a fork.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, ReblockError
from reblock.geometry import Box
from reblock.model.medium import Medium
from reblock.model.store import Flat, Index
from reblock.storage.hdf5.index import MANY_CHUNKS, Place, rows_of
from reblock.storage.hdf5.sandbox import wire
from reblock.storage.hdf5.sandbox.switchboard import SWITCHBOARD, not_started
from reblock.storage.media.blocks import library_reader
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL

#: Seconds to wait for a process to end.
_PATIENCE_SECONDS = 1.0
#: How often a process may open its file; HDF5 keeps a little memory each time.
_MANY_USES = 100


class Reader:
    """One file that is open in a separate process."""

    def __init__(self, path: str, medium: Medium = LOCAL) -> None:
        self._path = path
        self._owner = os.getpid()
        with disk_errors("open", path):
            status = medium.status(path)
            self._bytes = None if medium.is_local else library_reader(medium, path)
        self._size = status.size
        self._busy = self._closed = False
        # A process opens only the same file again: the file may have corrupted its memory.
        self._file = (os.path.abspath(path) if medium.is_local else path, *status)
        waiting = SWITCHBOARD.take(self._file)
        if waiting is not None:
            self._channel, self._stream, self._uses = waiting
            self._ending = self._guard()
            return
        self._channel, self._uses = SWITCHBOARD.connect(), 0
        self._stream = self._channel.makefile("rwb")
        self._ending = self._guard()
        if wire.receive(self._stream) is None:
            self.end()
            raise not_started()

    def _guard(self) -> weakref.finalize[[socket.socket, Any, Any, int], Reader]:
        """Ends the process once: when told to, or when a reader is dropped without being closed."""
        ending = weakref.finalize(self, _end, self._channel, self._stream, self._bytes, self._owner)
        ending.atexit = False
        return ending

    @property
    def _opening(self) -> dict[str, Any]:
        """What the process opens: a local file, or an object whose bytes we send."""
        if self._bytes is None:
            return {"path": os.path.abspath(self._path)}
        return {"path": self._path, "size": self._size}

    def describe(self, inner: str) -> dict[str, Any]:
        """The description of a dataset, or the target of a link."""
        with self._exchange("its metadata"):
            facts: dict[str, Any] = self._ask("describe", inner=inner, **self._opening)
            return facts

    def strangers(self) -> list[str]:
        """The contents of the file beside its one dataset, in words."""
        with self._exchange("its metadata"):
            return [str(one) for one in self._ask("strangers", **self._opening)]

    def survey(self, inner: str) -> list[dict[str, Any]]:
        """The description of everything below a group, parents first; see `survey`."""
        with self._exchange("its metadata"):
            nodes: list[dict[str, Any]] = self._ask("survey", inner=inner, **self._opening)
            return nodes

    def tree(self, inner: str) -> Iterator[dict[str, Any]]:
        """The descriptions of all objects below a group."""
        with self._exchange("its metadata"):
            answer = self._ask("tree", inner=inner, **self._opening)
            while answer is not None:
                yield dict(answer)
                answer = self._answer()

    def rows(self, inner: str, start: int, stop: int, limit_bytes: int, *, text: bool) -> tuple[int, bytes]:
        """Rows of a table from `start`: their number, and their bytes."""
        words: dict[str, Any] = {"inner": inner, "rows": [start, stop, limit_bytes], "text": text}
        with self._exchange("its elements"):
            count = int(
                self._ask("rows", **self._opening, cost=self._size + limit_bytes, room=4 * limit_bytes, **words)
            )
            return count, bytes(self._raw)

    def reopen(self, inner: str) -> None:
        """Open a dataset that was described before."""
        with self._exchange("its metadata"):
            self._ask("reopen", inner=inner, **self._opening)

    def sweep(self, ndim: int, where: str) -> npt.NDArray[np.uint64] | None:
        """All chunks as rows of first element per axis, offset, size and mask; None = look them up one by one."""
        rows = bytearray()
        with self._exchange("its chunk index"):
            answer = self._ask("sweep", shown=where)
            while answer == "rows":
                rows += self._raw
                if len(rows) > MANY_CHUNKS * 8 * (ndim + 3):
                    raise CorruptError(f"{where}: the chunk index has no end")
                answer = self._answer()
            return None if answer == "ask" else rows_of(rows, ndim)

    def find(self, index: Index, shift: int, where: str) -> Place | None:
        """The position of one chunk."""
        with self._exchange("its chunk index"):
            found = self._ask("ask", index=index, shift=shift, shown=where)
            return None if found is None else (int(found[0]), int(found[1]), int(found[2]))

    def read(
        self,
        box: Box,
        out: npt.NDArray[Any],
        where: str,
        *,
        chunk_bytes: int,
        chunk: Index | None = None,
        steps: Sequence[int] = (),
    ) -> bool:
        """Read a box through HDF5 into a contiguous array; False if the named chunk is not stored.

        With `steps`, only every n-th element along each axis.
        """
        most = out.nbytes + chunk_bytes
        slices = list(zip(box.start, box.stop, steps or [1] * box.ndim, strict=True))
        with self._exchange("its elements"):
            words: dict[str, Any] = {"box": slices, "dtype": out.dtype.str, "chunk": chunk, "shown": where}
            return bool(self._ask("read", out.reshape(-1).view(np.uint8), cost=most, room=4 * most, **words))

    def stored(self, chunk: Index, run: range, where: str, *, chunk_bytes: int) -> tuple[int, bytes]:
        """The stored size of a chunk, and some of its bytes."""
        words: dict[str, Any] = {
            "chunk": chunk,
            "run": [run.start, run.stop],
            "cost": 2 * chunk_bytes,
            "room": 4 * chunk_bytes,
        }
        with self._exchange("its chunks"):
            size = int(self._ask("stored", shown=where, **words))
            return size, bytes(self._raw)

    def close(self) -> None:
        """Close the file, which is locked against writers; the process waits for another use, or ends."""
        if self.usable and not self._busy and self._uses < _MANY_USES:
            with suppress(OSError, EOFError, ValueError, TypeError, LookupError, ReblockError):
                self._channel.settimeout(_PATIENCE_SECONDS)
                self._ask("release")
                self._channel.settimeout(None)
                self._closed = True
                self._ending.detach()
                if self._bytes is not None:
                    self._bytes.close()
                SWITCHBOARD.park(self._file, (self._channel, self._stream, self._uses + 1))
                return
        self.end()

    def end(self) -> None:
        """End the process and wait for it, because it has the file locked against writers."""
        self._closed = True
        self._ending()

    @property
    def usable(self) -> bool:
        """Whether the process is running, and was started by this process and not by its parent."""
        return not self._closed and self._owner == os.getpid()

    def _ask(self, do: str, out: Flat | None = None, **more: Any) -> Any:
        wire.send(self._stream, {"do": do, "shown": self._path, "cost": self._size, "room": 0, **more})
        return self._answer(out)

    def _answer(self, out: Flat | None = None) -> Any:
        """Receive the answer; raw bytes are returned, or written to `out`."""
        message = wire.receive(self._stream)
        while message is not None and "need" in message:
            self._give(*message["need"])
            message = wire.receive(self._stream)
        if message is None:
            raise EOFError
        if "error" in message:
            raise wire.unpack_error(message["error"])
        if out is None:
            self._raw = self._stream.read(message["bytes"])
            done = len(self._raw)
        elif message["bytes"] == out.size:
            done = self._stream.readinto(out.data)
        else:
            raise ValueError(f"{message['bytes']} bytes instead of {out.size}")
        if done != message["bytes"]:
            raise EOFError
        return message["answer"]

    def _give(self, offset: Any, size: Any) -> None:
        """Send bytes of an object that is no local file."""
        if self._bytes is None or int(offset) < 0 or not 0 <= int(size) <= wire.MOST_NEEDED:
            raise ValueError(f"{size} bytes at {offset}")
        view = memoryview(bytearray(min(int(size), max(self._size - int(offset), 0))))
        try:
            with disk_errors("read", self._path):
                found = self._bytes.read(view, int(offset)) if view else 0
        except BaseException:
            # The process still waits for the bytes.
            self.end()
            raise
        wire.send(self._stream, {}, view[:found])

    @contextmanager
    def _exchange(self, what: str) -> Iterator[None]:
        """Blame the file for any failure of the process to answer; after that the process is not used again."""
        self._busy = True
        try:
            yield
            self._busy = False
        except ReblockError:
            raise
        except (OSError, EOFError):
            self.close()
            raise CorruptError(f"{self._path}: HDF5 crashes or hangs on {what}: the file is damaged") from None
        except (ValueError, TypeError, LookupError) as error:
            self.close()
            raise CorruptError(f"{self._path}: HDF5 cannot interpret {what}: {error!r:.80}") from None
        except BaseException:
            # Part of an answer may be left in the socket.
            self.close()
            raise


def _end(channel: socket.socket, stream: Any, source: Any, owner: int) -> None:
    """End a process that has a file, and wait for it."""
    if owner == os.getpid():  # a fork of this process must not close it
        with suppress(OSError, ValueError):
            channel.settimeout(_PATIENCE_SECONDS)
            channel.shutdown(socket.SHUT_WR)
            while channel.recv(1 << 16):
                pass
    with suppress(OSError):
        stream.close()
    channel.close()
    if source is not None:
        source.close()
