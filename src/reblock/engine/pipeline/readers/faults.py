"""Errors of reading: they name the array, the chunk, the file and the bytes."""

from __future__ import annotations

import os
from typing import NoReturn

from reblock.engine.native import PROBLEMS, ResultStruct
from reblock.engine.pipeline.readers.opener import changed
from reblock.engine.view import View
from reblock.errors import CorruptError, DiskError
from reblock.model import Index


def corrupt(view: View, index: Index, path: str, offset: int, length: int, reason: str) -> CorruptError:
    """An error that names array, chunk, path and byte range."""
    chunk = ",".join(map(str, index))
    return CorruptError(
        f"{view.store.location}: chunk ({chunk}) in {path}, bytes {offset} to {offset + length}: {reason}"
    )


def missing(view: View, index: Index) -> CorruptError:
    """An error that names a chunk that is not stored, and says why that is an error."""
    chunk = ",".join(map(str, index))
    why = "and missing chunks are errors here" if view.store.fills else "and this format defines no fill for it"
    return CorruptError(f"{view.store.location}: chunk ({chunk}) is missing, {why}")


def raise_problem(view: View, index: Index, path: str, result: ResultStruct) -> NoReturn:
    """Raise the problem that the compiled loop reported."""
    problem = PROBLEMS[result.problem]
    offset, length, found = result.offset, result.length, max(result.found, 0)
    if problem == "missing":
        raise missing(view, index)
    if problem == "wrong size":
        raise corrupt(view, index, path, offset, length, f"the file holds {found} bytes there")
    if problem == "short":
        raise corrupt(view, index, path, offset, length, f"only {found} bytes are there")
    if problem == "changed":
        raise changed(view.store.medium, path)
    raise DiskError.wrap(OSError(result.error, os.strerror(result.error)), doing=problem, path=path)
