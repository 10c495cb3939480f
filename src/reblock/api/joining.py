"""Joining: the location of many arrays as one."""

from __future__ import annotations

import os
from typing import Any

from reblock.errors import UsageError, option
from reblock.storage.joined.pattern import JoinedLocation


def joined_source(source: Any, concat: str | int | None = None, stack: str | None = None) -> Any:
    """The location of many arrays as one; any other source stays as it is."""
    if concat is None and stack is None:
        if isinstance(source, list | tuple):
            raise UsageError(f"a list of arrays needs {option('concat')} or {option('stack')}")
        return source
    if not isinstance(source, str | os.PathLike | list | tuple):
        raise UsageError(f"{option('concat')} and {option('stack')} join files: give a pattern, or a list of paths")
    return str(JoinedLocation.of(source, concat=concat, stack=stack))
