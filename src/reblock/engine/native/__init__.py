"""The compiled loop: C sources, the library made of them, and the one place that calls it."""

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
    "settle",
]
