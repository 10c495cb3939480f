"""Access logs: one line of JSON for each read or write of an array, appended by any number of processes.

::

    {"array": "/data/x.zarr", "shape": [365, 720], "op": "read", "start": [0, 10], "stop": [365, 11]}

A line is one `write` to a file that is open for appending, so that lines of several processes do not mix and a killed
process leaves only whole lines. Network file systems do not guarantee that: there each process has a file of its own,
`LOG.HOST.PID`, beside LOG. Readers of a log take LOG and all of these, and skip lines that are damaged.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from typing import Any

from reblock.errors import DiskError
from reblock.storage.location import Location, Where, absolute
from reblock.storage.media.mounts import is_network

#: Operations in a log.
READ, WRITE = "read", "write"


class AccessLog:
    """Appends the accesses to one array to a log."""

    def __init__(self, path: Where, array: str, shape: Sequence[int]) -> None:
        self.path = absolute(os.fspath(path))
        """The log."""
        self.array, self.shape = array, tuple(shape)
        self._heads = {
            op: f'{{"array": {json.dumps(array)}, "shape": {json.dumps(list(shape))}, "op": "{op}", "start": '
            for op in (READ, WRITE)
        }
        self._network = is_network(os.path.dirname(self.path))
        self._process = 0
        self._file = -1
        self._failed = False
        self._open()

    def note(self, start: Sequence[int], stop: Sequence[int], op: str = READ) -> None:
        """Append an access; where that fails, a warning is given once, and the access goes on."""
        if self._network and os.getpid() != self._process:
            self._open()
        line = f'{self._heads[op]}{list(start)}, "stop": {list(stop)}}}\n'.encode()
        try:
            written = os.write(self._file, line)
            if written < len(line):
                os.write(self._file, b"\n")
                raise OSError(f"{written} of {len(line)} bytes were written")
        except OSError as error:
            if not self._failed:
                self._failed = True
                warnings.warn(f"{self.path}: accesses are not logged: {error}", RuntimeWarning, stacklevel=2)

    def _open(self) -> None:
        self._process = os.getpid()
        path = f"{self.path}.{os.uname().nodename}.{self._process}" if self._network else self.path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                # A line that a full disk cut off must not spoil the next one.
                os.write(self._file, b"\n")
        except OSError as error:
            raise DiskError.wrap(error, doing="writing the log of accesses", path=path) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return AccessLog, (self.path, self.array, self.shape)

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)
            self._file = -1


def location_name(location: str) -> str:
    """The name of an array in logs: its whole path."""
    where = Location.parse(location)
    return str(Location(absolute(where.path), where.inner))
