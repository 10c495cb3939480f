"""Types and fill values of the arrays of a dataset, given once for all of them, or by name.

::

    f4                  every array of numbers but coordinates: theirs would no longer be the axes of other datasets
    t2m=f4,ocean/*=f8   arrays and groups of such names, coordinates too; the last pattern that matches counts
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from reblock.api.conversion import fill_text, parse_dtype
from reblock.engine.casting import is_convertible
from reblock.errors import UsageError, option
from reblock.model import Tree
from reblock.storage.trees import parents

#: Attributes that name other arrays as coordinates, in the conventions of CF.
_NAMING = ("coordinates", "bounds", "climatology", "grid_mapping")
#: The most names that a message lists.
_SHOWN = 8


def by_name(value: Any) -> dict[str, Any] | None:
    """Values that are given by name, such as `t2m=f4,u10=f4`; None if one is for all arrays."""
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    if not isinstance(value, str) or "=" not in value.lstrip().lstrip("="):
        return None
    found: dict[str, Any] = {}
    for item in value.split(","):
        name, equals, one = (part.strip() for part in item.partition("="))
        if not (name and equals and one):
            raise UsageError(f"{item!r} in {value!r} is not NAME=VALUE")
        if name in found:
            raise UsageError(f"{name!r} is given twice in {value!r}")
        found[name] = one
    return found


def types_of(given: Any, tree: Tree, where: str) -> tuple[dict[str, Any], list[str]]:
    """The type of each array that is converted, and notes on arrays that stay as they are."""
    named = by_name(given)
    if named is not None:
        return _matched("dtype", named, tree, where), []
    if given is None:
        return {}, []
    after, found = parse_dtype(given), _all_but_coordinates(tree)
    fixed = [name for name in found if not is_convertible(tree.arrays[name].dtype, after)]
    if len(fixed) == len(found):
        raise UsageError(
            f"{option('dtype')} {given!s}: no array of {where} becomes {after}; coordinates only if they are named: "
            f"NAME={given!s}"
        )
    kinds = sorted({str(tree.arrays[name].dtype) for name in fixed})
    note = f"{listed(fixed)} keep their type: {', '.join(kinds)} cannot become {after}"
    return {name: given for name in found if name not in fixed}, [note] if fixed else []


def fills_of(given: Any, tree: Tree, where: str) -> dict[str, Any]:
    """The fill value of each array that gets one."""
    named = by_name(given)
    if named is not None:
        return _matched("fill_value", named, tree, where)
    return {} if given is None else dict.fromkeys(_all_but_coordinates(tree), given)


def _matched(name: str, patterns: Mapping[str, Any], tree: Tree, where: str) -> dict[str, Any]:
    """The values of arrays whose names are given."""
    found: dict[str, Any] = {}
    for pattern, value in patterns.items():
        names = [one for one in tree.arrays if matches(one, [pattern])]
        if not names:
            tables = [one for one in tree.tables if matches(one, [pattern])]
            why = f"{listed(tables)} has elements that cannot be converted" if tables else f"{where} has no such array"
            raise UsageError(f"{option(name)} {pattern}={value!s}: {why}: there are {listed(list(tree.arrays))}")
        found |= dict.fromkeys(names, value)
    return found


def _all_but_coordinates(tree: Tree) -> list[str]:
    coordinates = coordinates_of(tree)
    return [name for name in tree.arrays if name not in coordinates]


def coordinates_of(tree: Tree) -> set[str]:
    """Arrays that have the name of an axis of theirs, and those that attributes of others name as coordinates."""
    found = {name for name, schema in tree.arrays.items() if name.rpartition("/")[2] in (schema.axes or ())}
    nodes = [(name, one.attributes) for name, one in tree.arrays.items()]
    nodes += [(name, table.attributes) for name, table in tree.tables.items()]
    nodes += [(f"{name}/*".lstrip("/"), group.attributes) for name, group in tree.groups.items()]
    for name, attributes in nodes:
        for word in _named_in(attributes):
            places = ("/".join(filter(None, (above, word.strip("/")))) for above in reversed(list(parents(name))))
            found |= {next((place for place in places if place in tree.arrays), "")}
    return found - {""}


def _named_in(attributes: Mapping[str, Any]) -> Iterator[str]:
    for attribute in _NAMING:
        value = np.asarray(attributes.get(attribute, "")).ravel().tolist()
        for text in value:
            words = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
            yield from words.replace(":", " ").split()


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern is that of the name, or of a group above it; `*` also matches slashes."""
    parts = name.split("/")
    whole = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(fnmatchcase(one, pattern.strip("/")) for pattern in patterns for one in whole)


def listed(names: Sequence[str]) -> str:
    """The first few of some names."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def types_text(given: Any) -> str | None:
    """Types as the command line takes them."""
    return _text(given, lambda one: one if isinstance(one, str) else parse_dtype(one).str)


def fills_text(given: Any) -> str | None:
    """Fill values as the command line takes them."""
    return _text(given, lambda one: one if isinstance(one, str) else fill_text(one))


def _text(given: Any, text: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, Mapping):
        return str(text(given))
    return ",".join(f"{name}={text(one)}" for name, one in given.items())
