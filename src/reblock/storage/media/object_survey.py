"""Surveys: the status of many objects of a store, by listings where that takes fewer requests than one per object.

::

    c/0/0  c/0/1  c/0/2  …  c/5/4  c/5/5     few keys below each prefix  → list c/ from the first key to the last one
    c/0/0 … c/0/999   c/1/0 … c/1/999        many keys below each        → list each prefix
    c/7/3  c/9/1                             few keys among many others  → look at each

A page of a listing has a thousand keys, in the order of their bytes. A listing that meets too many other keys, or keys
in another order, is given up, and its keys are divided by the next part of their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from reblock.model.medium import Status
from reblock.model.workspace import Stamps

if TYPE_CHECKING:
    from reblock.storage.media.object import ObjectMedium

#: Threads for many small requests.
THREADS = 16
#: Fewer keys than this are looked at one by one, and prefixes with more keys than that are listed one by one.
_FEW_KEYS, _MANY_KEYS = 3, 128
#: A listing may show this many keys for each that is wanted, and one page.
_LISTED_PER_KEY, PAGE = 4, 1000

_Found = dict[str, Status]
_One = TypeVar("_One")
_Result = TypeVar("_Result")


def survey(medium: ObjectMedium, keys: Sequence[str]) -> list[Status | None]:
    """The status of many objects; None = missing."""
    found: _Found = {}
    groups, alone = [sorted({key for key in keys if key})], list[str]()
    while groups:
        alone += [key for some in groups if len(some) < _FEW_KEYS or not medium.lists for key in some]
        groups = [some for some in groups if len(some) >= _FEW_KEYS and medium.lists]
        listed = together(groups, lambda some: None if _is_wide(some) else _list(medium, some))
        for seen in listed:
            found |= seen or {}
        groups = [part for some, seen in zip(groups, listed, strict=True) if seen is None for part in _divide(some)]
    looked = together(alone, lambda key: _look(medium, key))
    found |= {key: seen for key, seen in zip(alone, looked, strict=True) if seen is not None}
    return [found.get(key) for key in keys]


def together(some: Sequence[_One], function: Callable[[_One], _Result]) -> list[_Result]:
    """The results of a function, in several threads if that pays."""
    if len(some) < 2:
        return [function(one) for one in some]
    with ThreadPoolExecutor(min(THREADS, len(some)), "reblock-look") as threads:
        return list(threads.map(function, some))


def _look(medium: ObjectMedium, key: str) -> Status | None:
    try:
        return medium.look(key)
    except FileNotFoundError:
        return None


def _folder(keys: Sequence[str]) -> str:
    """The longest prefix of sorted keys that ends in a slash."""
    pairs = zip(keys[0].split("/"), keys[-1].split("/"), strict=False)
    same = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "/".join(same[: keys[0].count("/")]) + "/"


def _divide(keys: Sequence[str]) -> list[list[str]]:
    """Sorted keys by the next part of their names; keys that have no more parts go alone."""
    start = len(_folder(keys))
    return [list(some) for _, some in groupby(keys, lambda key: key[start:].partition("/")[0])]


def _is_wide(keys: Sequence[str]) -> bool:
    """Whether there are many keys below each of the next prefixes, so that these are better listed."""
    start = len(_folder(keys))
    parts = sum(1 for _ in groupby(keys, lambda key: key[start:].partition("/")[0]))
    return 1 < parts <= len(keys) // _MANY_KEYS


def _list(medium: ObjectMedium, keys: Sequence[str]) -> _Found | None:
    """The status of keys from a listing, from the first key to the last; None if there are too many others."""
    wanted, found = set(keys), _Found()
    left, before = _LISTED_PER_KEY * len(keys) + PAGE, ""
    for one in medium.listed(_folder(keys).rstrip("/"), after=_before(keys[0])):
        key = f"{medium.name}/{one['path']}"
        left -= 1
        if left < 0 or key <= before:
            return None
        before = key
        if key in wanted:
            found[key] = medium.status_of(one)
        if key >= keys[-1]:
            break
    return found


def _before(key: str) -> str | None:
    """A key shortly before another; None if the names in its folder may begin with rare characters.

    It is in the same folder, because some servers skip a whole folder whose own name they are to begin after.
    """
    folder, _, name = key.rpartition("/")
    return f"{folder}/!" if name > "!~" else None


def identity_of(path: str, tag: str) -> int:
    """A number made of a path and an ETag, which listings write with or without quotes."""
    text = f"{path} {tag.removeprefix('W/').strip(chr(34))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def stamp_rows(found: Iterable[tuple[int, int] | None]) -> Stamps:
    """The state of objects as the log records it."""
    return np.array([(*one, 0, 0) if one else (0, 0, 0, 0) for one in found], np.uint64).reshape(-1, 4)
