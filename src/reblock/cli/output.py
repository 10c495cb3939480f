"""Output: results on stdout, messages on stderr; a closed pipe breaks nothing."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from reblock.errors import DiskError


def emit(result: str | Mapping[str, Any]) -> None:
    """Write a result to stdout: text as it is, anything else as one JSON document."""
    text = result if isinstance(result, str) else to_json(result)
    try:
        _write(sys.stdout, text)
    except OSError as error:
        _silence(sys.stdout)
        # The reader has closed the pipe; the work itself is done.
        if not isinstance(error, BrokenPipeError):
            raise DiskError.wrap(error, doing="writing the result to", path="stdout") from error


def say(message: str) -> None:
    """Write a message to stderr."""
    try:
        _write(sys.stderr, message)
    except OSError:
        # Nobody can read the message.
        _silence(sys.stderr)


def to_json(document: Mapping[str, Any]) -> str:
    """One JSON document; numbers that JSON lacks become text."""
    return json.dumps(_finite(document), indent=2, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    try:
        stream.write(f"{text}\n")
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _silence(stream: TextIO | None) -> None:
    """Discard the rest of a stream's buffer, about which Python would complain at exit."""
    if stream is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except OSError:
        return
