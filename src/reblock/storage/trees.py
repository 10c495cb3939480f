"""Trees of any format: their names, their shared axes, and the nearest tree that a format can hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from reblock.errors import FormatError, UsageError
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree
from reblock.model.schema import Schema
from reblock.storage.attributes import is_text
from reblock.storage.checks import show

#: The most groups and arrays of a dataset.
MAX_NODES = 200_000
#: The deepest nesting of groups.
MAX_DEPTH = 64
#: The longest name of a node in bytes; file systems have the same limit.
MAX_NAME_BYTES = 255


# ---------------------------------------------------------------- names
def join(*parts: str) -> str:
    """A path from parts that may be empty."""
    return "/".join(part for part in parts if part)


def parents(name: str) -> Iterator[str]:
    """The groups above a node, the top first."""
    if name:
        yield ""
    parts = name.split("/")
    for count in range(1, len(parts)):
        yield "/".join(parts[:count])


def parent_of(name: str) -> str:
    """The group of a node."""
    return name.rpartition("/")[0]


def with_parents(groups: Mapping[str, GroupSchema], nodes: Iterable[str]) -> dict[str, GroupSchema]:
    """The groups, and all that are above nodes, parents first."""
    found = {"": groups.get("", GroupSchema())}
    for name in (*groups, *nodes):
        for above in (*parents(name), *((name,) if name in groups else ())):
            if above not in found:
                found[above] = groups.get(above, GroupSchema())
    return found


def check_nodes(count: int, depth: int, where: str) -> None:
    """Raise FormatError if a dataset has too many nodes, or they are nested too deeply."""
    if count > MAX_NODES:
        raise FormatError(f"{where}: more than {MAX_NODES:,} groups and arrays; open one of its groups")
    if depth > MAX_DEPTH:
        raise FormatError(f"{where}: groups are nested deeper than {MAX_DEPTH} levels; open one of its groups")


def check_names(tree: Tree, format: str, *, refused: Callable[[str], str] = lambda _: "") -> None:
    """Raise UsageError for a name that no format can hold, or for which `refused` returns a reason."""
    arrays = {**tree.arrays, **tree.tables}
    if len(tree.groups) + len(arrays) > MAX_NODES:
        raise UsageError(f"{format}: more than {MAX_NODES:,} groups and arrays")
    for name in (*tree.groups, *arrays):
        for part in name.split("/") if name else ():
            if problem := _name_problem(part) or refused(part):
                raise UsageError(f"{format} cannot hold the name {show(name)}: {problem}")
        if name.count("/") >= MAX_DEPTH:
            raise UsageError(f"{format}: {show(name)} is nested deeper than {MAX_DEPTH} levels")
        if inside := [above for above in parents(name) if above in arrays]:
            raise UsageError(f"{format}: {show(name)} is inside {show(inside[0])}, which is an array, not a group")
    if both := [name for name in tree.groups if name in arrays]:
        raise UsageError(f"{format}: {show(both[0])} is both a group and an array")
    if "" in arrays:
        raise UsageError(f"{format}: an array of a dataset needs a name")


def _name_problem(part: str) -> str:
    if part in ("", ".", ".."):
        return "it has an empty part, or '.' or '..'"
    if "\0" in part:
        return "it contains a NUL character"
    if not is_text(part):
        return "it is not Unicode"
    size = len(part.encode())
    return f"{size} bytes are more than {MAX_NAME_BYTES}" if size > MAX_NAME_BYTES else ""


# ---------------------------------------------------------------- shared axes
def with_dimensions(
    groups: Mapping[str, GroupSchema], arrays: Mapping[str, Schema | TableSchema]
) -> dict[str, GroupSchema]:
    """The groups with the axes that their arrays share.

    An axis is defined in the group of the first array that has it, unless a group above defines it with the same
    length. A name with several lengths in one group is not a shared axis.
    """
    lengths: dict[str, dict[str, set[int]]] = {}
    for name, schema in arrays.items():
        here = lengths.setdefault(parent_of(name), {})
        for axis, length in zip(schema.axes or (), schema.shape, strict=False):
            if axis:
                here.setdefault(axis, set()).add(length)
    found: dict[str, GroupSchema] = {}
    for name, group in groups.items():
        seen = lengths.get(name, {})
        dimensions = {
            axis: one for axis, one in group.dimensions.items() if seen.get(axis, {one.length}) == {one.length}
        }
        for axis, several in seen.items():
            if axis not in dimensions and len(several) == 1 and several != {_length_above(found, name, axis)}:
                dimensions[axis] = Dimension(next(iter(several)))
        found[name] = replace(group, dimensions=dimensions)
    return found


def _length_above(groups: Mapping[str, GroupSchema], name: str, axis: str) -> int | None:
    """The length of an axis that a group above a node defines; the nearest one counts."""
    for above in reversed(list(parents(name))):
        if axis in groups[above].dimensions:
            return groups[above].dimensions[axis].length
    return None


# ---------------------------------------------------------------- the nearest tree
def adapt_arrays(
    tree: Tree, adapt: Callable[[Schema, Collection[str]], Schema], asked: Collection[str]
) -> tuple[dict[str, Schema], dict[str, TableSchema]]:
    """The arrays as a format can hold them, and those that it cannot hold, as tables with the reason."""
    arrays: dict[str, Schema] = {}
    refused: dict[str, TableSchema] = {}
    for name, schema in tree.arrays.items():
        try:
            arrays[name] = adapt(schema, asked)
        except UsageError as error:
            if asked and _can(adapt, schema):
                raise UsageError(f"{name}: {error.message}") from None
            refused[name] = TableSchema(
                schema.shape, schema.dtype, "array", attributes=schema.attributes, axes=schema.axes, why=error.message
            )
    return arrays, refused


def _can(adapt: Callable[[Schema, Collection[str]], Schema], schema: Schema) -> bool:
    try:
        adapt(schema, ())
    except UsageError:
        return False
    return True


def is_new_name(path: str, name: str, leaves: Collection[str], groups: Collection[str]) -> bool:
    """Whether a name is new in a file of arrays and groups; UsageError if it is below an array."""
    above = [one for one in parents(name) if one in leaves]
    if above:
        raise UsageError(f"{path}::{above[0]} is an array, so {name} cannot be below it: choose another name")
    return bool(name) and name not in leaves and name not in groups
