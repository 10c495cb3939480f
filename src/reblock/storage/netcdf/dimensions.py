"""Names of axes for NetCDF, which has no axis without a name, and no name with two lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reblock.model.dataset import Dimension, TableSchema
from reblock.model.schema import Schema
from reblock.storage.checks import show
from reblock.storage.netcdf.names import name_problem


def usable_axes(axes: Sequence[str]) -> bool:
    """Whether NetCDF can hold all names."""
    return not any(map(name_problem, axes))


def name_axes(schema: Schema | TableSchema, known: Mapping[str, Dimension]) -> tuple[tuple[str, ...] | None, list[str]]:
    """A name for each axis, of the same length as the known dimension of that name; and notes."""
    if not schema.shape:
        return None, []
    given = schema.axes if schema.axes and len(schema.axes) == len(schema.shape) else ("",) * len(schema.shape)
    lengths: dict[str, int] = {}
    named = []
    for number, (name, length) in enumerate(zip(given, schema.shape, strict=True)):
        wanted = name if name and not name_problem(name) else f"dim_{number}"
        for candidate in (
            wanted,
            f"{wanted}_{length}",
            *(f"{wanted}_{length}_{n}" for n in range(len(known) + number + 1)),
        ):
            there = known[candidate].length if candidate in known else lengths.get(candidate, length)
            if there == length:
                break
        lengths[candidate] = length
        named.append(candidate)
    found = tuple(named)
    if found == schema.axes:
        return found, []
    was = show(schema.axes) if schema.axes else "had none"
    return found, [f"axes are named {', '.join(found)} ({was}): NetCDF needs a name for each, with one length"]
