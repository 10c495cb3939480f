"""Patterns of files: the location of an array that consists of many, and the files that a pattern stands for.

::

    concat://time//data/era5_*.nc::t2m       the arrays t2m of all these files, one after the other along time
    stack://z//data/slices/*.tif             all these arrays, along a new first axis z
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, unquote

from reblock.errors import UsageError, option
from reblock.model.medium import FOLDER, Medium
from reblock.storage.location import Location, Where, absolute
from reblock.storage.media.files import disk_errors
from reblock.storage.media.registry import medium_of

CONCAT, STACK = "concat", "stack"
#: Separates the patterns of a list.
_BAR = "|"
_MAGIC = re.compile(r"[*?[]")
#: The most files of one array.
MAX_FILES = 1 << 17


@dataclass(frozen=True)
class JoinedLocation:
    """Many arrays, and how they become one."""

    how: str
    """`concat` or `stack`."""
    axis: str
    """The axis along which they follow each other: its name or number, or the name of a new one."""
    patterns: tuple[str, ...]
    """Whole paths, which may contain `*`, `?` and `[…]`."""
    inner: str = ""
    """Path of the array in each file."""

    @classmethod
    def of(cls, source: Where | Sequence[Where], *, concat: str | int | None, stack: str | None) -> JoinedLocation:
        """From the arguments of a caller."""
        if (concat is None) == (stack is None):
            raise UsageError(f"give {option('concat')} or {option('stack')}, not both")
        several = isinstance(source, Sequence) and not isinstance(source, str)
        listed: Any = source if several else [source]
        given = [Location.parse(where) for where in listed]
        if not given:
            raise UsageError("a list of arrays to be joined is empty")
        if wrong := next((where for where in given if where.inner != given[0].inner), None):
            raise UsageError(f"{wrong}: arrays that are joined have the same inner path, not {given[0].inner!r}")
        axis = str(concat) if stack is None else stack
        if not axis:
            raise UsageError(f"{option('stack' if concat is None else 'concat')} needs the name of an axis")
        paths = tuple(absolute(where.path) for where in given)
        if wrong_path := next((path for path in paths if _BAR in path), None):
            raise UsageError(f"{wrong_path}: names of files that are joined cannot contain {_BAR!r}")
        return cls(CONCAT if stack is None else STACK, axis, paths, given[0].inner)

    @classmethod
    def parse(cls, text: str) -> JoinedLocation | None:
        """From the text of a location; None if it is of one array."""
        how, colon, rest = text.partition("://")
        if not colon or how not in (CONCAT, STACK):
            return None
        where = Location.parse(rest)
        axis, slash, paths = where.path.partition("/")
        if not axis or not slash or not paths:
            raise UsageError(f"{text}: expected {how}://AXIS/PATH")
        return cls(how, unquote(axis), tuple(paths.split(_BAR)), where.inner)

    def __str__(self) -> str:
        inner = f"::{self.inner}" if self.inner else ""
        return f"{self.how}://{quote(self.axis, safe='')}/{_BAR.join(self.patterns)}{inner}"

    def paths(self) -> list[str]:
        """The files, in natural order of their names; a list without patterns keeps its own order."""
        found = [path for pattern in self.patterns for path in expand(pattern)]
        if len(found) > MAX_FILES:
            raise UsageError(f"{self}: {len(found):,} files, the limit is {MAX_FILES:,}")
        if len(set(found)) < len(found):
            twice = next(path for path in found if found.count(path) > 1)
            raise UsageError(f"{twice} is named twice")
        return found


def expand(pattern: str) -> list[str]:
    """The files and folders that a pattern stands for, in natural order; UsageError if there are none."""
    if not _MAGIC.search(pattern):
        return [pattern]
    medium = medium_of(pattern)
    if "://" in pattern:
        scheme, _, rest = pattern.partition("://")
        top, _, below = rest.partition("/")
        start = f"{scheme}://{top}"
    else:
        start, below = "", pattern.lstrip("/")
    parts = [part for part in below.split("/") if part]
    found = sorted(_matching(medium, start, parts), key=natural)
    if not found:
        raise UsageError(f"{pattern}: no file matches")
    return found


def _matching(medium: Medium, folder: str, parts: Sequence[str]) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    if not _MAGIC.search(part):
        names = [part]
    else:
        try:
            with disk_errors("list", folder or "/"):
                listed = medium.entries(folder or "/")
        except NotADirectoryError:
            return
        names = [
            name
            for name, kind in listed
            if fnmatchcase(name, part) and name.startswith(".") <= part.startswith(".") and (not rest or kind == FOLDER)
        ]
    for name in names:
        path = f"{folder}/{name}"
        if rest:
            yield from _matching(medium, path, rest)
        elif _MAGIC.search(part) or _exists(medium, path):
            yield path


def _exists(medium: Medium, path: str) -> bool:
    try:
        medium.status(path)
    except FileNotFoundError:
        return False
    return True


def natural(path: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts `x2` before `x10`."""
    parts = re.split(r"([0-9]+)", path)
    return tuple((0, int(part), part) if part.isdigit() else (1, 0, part) for part in parts if part)
