"""Messages between us and the process that reads HDF5 files: JSON and raw bytes, nothing executable.

::

    message     one line of JSON, then as many raw bytes as its field "bytes" says
    request     {"do": "describe", ...}
    answer      {"answer": ...} or {"error": [type, message, path, errno]}
    need        {"need": [offset, size]} before an answer, for bytes of a file that is not local; they are sent back

A hostile file may have taken over the process, so its answers are checked like the file itself.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol

import numpy as np

from reblock import errors
from reblock.errors import CorruptError, DiskError, ReblockError
from reblock.model.schema import element
from reblock.storage.seekable import SeekableFile

#: The longest line; the attributes of a dataset are most of it.
_LINE_BYTES = 64 << 20
#: The most bytes that the process gets at a time.
MOST_NEEDED = 1 << 20
#: Errors that an answer may contain.
_ERRORS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ReblockError)
}


class Stream(Protocol):
    """A socket as a file."""

    def write(self, data: Any, /) -> Any: ...

    def flush(self) -> None: ...

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


def send(stream: Stream, message: dict[str, Any], data: Any = b"") -> None:
    """Send a message."""
    view = memoryview(data).cast("B")
    stream.write(json.dumps({**message, "bytes": len(view)}).encode() + b"\n")
    stream.write(view)
    stream.flush()


def receive(stream: Stream) -> dict[str, Any] | None:
    """The next message without its raw bytes; None if the other side is gone."""
    line = stream.readline(_LINE_BYTES)
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a message is an object")  # noqa: TRY004 - an error of the other side
    return message


class SentFile(SeekableFile):
    """A read-only file whose bytes the other side sends on request."""

    def __init__(self, stream: Stream, size: int) -> None:
        super().__init__(size)
        self._stream = stream

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; bytes after the end are zeros, as HDF5 expects."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            send(self._stream, {"need": [self.position, min(len(view) - done, MOST_NEEDED)]})
            message = receive(self._stream)
            if message is None:
                raise EOFError
            data = self._stream.read(message["bytes"])
            if not data:
                view[done:] = bytes(len(view) - done)
                break
            view[done : done + len(data)] = data
            done += len(data)
            self.position += len(data)
        return len(view)


# ---------------------------------------------------------------- errors
def pack_error(error: ReblockError) -> list[Any]:
    """An error as JSON."""
    return [type(error).__name__, error.message, getattr(error, "path", ""), getattr(error, "errno", 0)]


def unpack_error(value: Any) -> ReblockError:
    """The error that was packed."""
    name, message, path, number = value
    kind = _ERRORS.get(name, CorruptError)
    if issubclass(kind, DiskError):
        return DiskError(str(message), path=str(path), errno=int(number))
    return kind(str(message))


# ---------------------------------------------------------------- values
def pack(value: Any) -> Any:
    """An attribute or a fill value as JSON: text and lists unchanged, numpy values with their type and bytes."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray | np.generic):
        array = value if isinstance(value, np.ndarray) else element(value, value.dtype)
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {kind: [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]}
    if isinstance(value, list):
        return [pack(inner) for inner in value]
    return str(value)


def unpack(value: Any) -> Any:
    """The value that was packed."""
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        if kind == "bytes":
            return np.bytes_(base64.b64decode(content))
        dtype, shape, data = content
        array = np.frombuffer(bytearray(base64.b64decode(data)), np.dtype(dtype)).reshape(shape)
        return array if kind == "array" else array[()]
    return [unpack(inner) for inner in value] if isinstance(value, list) else str(value)
