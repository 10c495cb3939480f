"""The compiled loop: its C sources, the library built from them, and the only module that calls it."""

from reblock.engine.native.loading import library, reason
from reblock.engine.native.moves import (
    MAX_AXES,
    Moves,
    Stamps,
    address,
    component,
    decoder,
    joined,
    look,
    regroup,
    settle,
)
from reblock.engine.native.structs import HEAD, PROBLEMS, LookStruct, ResultStruct, WindowStruct

__all__ = [
    "HEAD",
    "MAX_AXES",
    "PROBLEMS",
    "LookStruct",
    "Moves",
    "ResultStruct",
    "Stamps",
    "WindowStruct",
    "address",
    "component",
    "decoder",
    "joined",
    "library",
    "look",
    "reason",
    "regroup",
    "settle",
]
