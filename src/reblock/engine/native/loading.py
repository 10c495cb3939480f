"""Loads the compiled library once, checks it and declares its functions; or says why it cannot be used."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from functools import cache
from typing import Any, NamedTuple

from reblock.engine.native.structs import (
    BatchStruct,
    DecoderStruct,
    LookStruct,
    PassStruct,
    ResultStruct,
    WindowStruct,
)

#: Number of the interface; `moves.h` has the same. A library with another number is not called.
ABI = 2
#: Where the build puts the library.
PATH = os.path.join(os.path.dirname(__file__), "libmoves.so")

_PASS, _WINDOW, _BATCH, _RESULT = (POINTER(one) for one in (PassStruct, WindowStruct, BatchStruct, ResultStruct))
#: Every function that is called, with the types of its result and arguments.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "reblock_scatter": (c_int64, _PASS, _WINDOW, c_void_p, c_void_p, c_void_p, c_int64),
    "reblock_read": (c_int, _PASS, _WINDOW, _BATCH, c_int64, c_int64, _RESULT),
    "reblock_fetch": (c_int64, _PASS, _BATCH, c_int64, c_int, POINTER(c_int64)),
    "reblock_decode": (
        *(c_int64, _PASS, _WINDOW, _BATCH, c_int64, c_int, POINTER(DecoderStruct)),
        *(c_void_p, c_int64, _RESULT, c_void_p),
    ),
    "reblock_regroup": (c_int, c_void_p, c_int64, c_int64, c_void_p),
    "reblock_write": (c_int, c_int64, c_void_p, c_char_p, c_int64, _RESULT),
    "reblock_look": (c_int, c_int64, c_char_p, c_int64, POINTER(LookStruct)),
    "reblock_settle": (c_int64, c_int64, c_char_p, c_void_p),
    "reblock_digest": (c_int, c_int64, c_int64, c_int64, *[c_void_p] * 6),
}


class LoadOutcome(NamedTuple):
    """The outcome of loading the library."""

    functions: ctypes.CDLL | None
    """The library; None if it cannot be used."""
    reason: str
    """Why it cannot be used; "" if it can."""


@cache
def load(path: str = PATH) -> LoadOutcome:
    """Load a library, and check that it has the interface that this code expects."""
    if not os.path.exists(path):
        return LoadOutcome(
            None, "the compiled engine was not built; where there is a C compiler, installing reblock builds it"
        )
    try:
        found = ctypes.CDLL(path)
    except OSError as error:
        return LoadOutcome(None, f"the compiled engine cannot be loaded: {error}")
    try:
        found.reblock_abi.restype, found.reblock_abi.argtypes = c_int64, []
        number = found.reblock_abi()
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        return LoadOutcome(None, _other(str(error)))
    if number != ABI:
        return LoadOutcome(None, _other(f"interface {number} where {ABI} is expected"))
    return LoadOutcome(found, "")


def _other(detail: str) -> str:
    return f"the compiled engine was built from another version, so install reblock again ({detail})"


def library() -> ctypes.CDLL | None:
    """The compiled library; None if it cannot be used."""
    return load().functions


def reason() -> str:
    """Why the compiled library cannot be used; "" if it can."""
    return load().reason
