"""Copies of whole NetCDF files through the formats, and their comparison by the NetCDF library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from reblock.model.dataset import Tree, TreeFormat
from reblock.testing.arrays import in_byte_order
from reblock.testing.reference_io import read_array, write_array


def copy(source: TreeFormat, path: Path, target: TreeFormat, to: Path) -> Tree:
    """Copy everything that the target can hold; returns the adapted tree."""
    opened = source.open_tree(str(path), "")
    tree = target.adapt_tree(opened.tree, ())
    target.create_tree(str(to), "", tree)
    for name, schema in tree.arrays.items():
        store = target.reopen(str(to), name, schema)
        write_array(store, in_byte_order(read_array(opened.array(name)), schema.dtype))
        store.checkpoint()
        store.commit()
    for name, table in tree.tables.items():
        if not table.why:
            rows = opened.rows(name, 0, table.shape[0] if table.shape else 1, 1 << 24)
            target.write_rows(str(to), "", name, tree, 0, rows)
    target.commit_tree(str(to), "", tree, {})
    return tree


def differences(one: Path, other: Path, left_out: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """What differs between two files, as the NetCDF library reads them; the order of variables does not count."""
    with netCDF4.Dataset(one) as first, netCDF4.Dataset(other) as second:
        return list(_groups(first, second, "", left_out))


def _groups(one: Any, other: Any, where: str, left_out: set[str]) -> Any:
    yield from _attributes(one, other, where)
    lengths = [{n: (len(d), d.isunlimited()) for n, d in group.dimensions.items()} for group in (one, other)]
    if lengths[0] != lengths[1] or list(lengths[0]) != list(lengths[1]):
        yield f"{where}: dimensions {lengths}"
    wanted = {name for name in one.variables if where + name not in left_out}
    if wanted != set(other.variables):
        yield f"{where}: variables {wanted ^ set(other.variables)}"
    for name in wanted & set(other.variables):
        yield from _variables(one.variables[name], other.variables[name], where + name)
    if set(one.groups) != set(other.groups):
        yield f"{where}: groups {set(one.groups) ^ set(other.groups)}"
    for name in set(one.groups) & set(other.groups):
        yield from _groups(one.groups[name], other.groups[name], f"{where}{name}/", left_out)


def _variables(one: Any, other: Any, where: str) -> Any:
    for variable in (one, other):
        variable.set_auto_maskandscale(False)
        variable.set_auto_chartostring(False)
    yield from _attributes(one, other, where)
    if (one.dimensions, one.shape) != (other.dimensions, other.shape):
        yield f"{where}: {one.dimensions} {one.shape} became {other.dimensions} {other.shape}"
        return
    first, second = np.asarray(one[...]), np.asarray(other[...])
    if first.dtype.newbyteorder("=") != second.dtype.newbyteorder("="):
        yield f"{where}: {first.dtype} became {second.dtype}"
    elif first.dtype.hasobject:
        if first.tolist() != second.tolist():
            yield f"{where}: texts differ"
    elif in_byte_order(second, first.dtype).tobytes() != first.tobytes():
        yield f"{where}: elements differ"


def _attributes(one: Any, other: Any, where: str) -> Any:
    if one.ncattrs() != other.ncattrs():
        yield f"{where}: attributes {one.ncattrs()} became {other.ncattrs()}"
    for name in set(one.ncattrs()) & set(other.ncattrs()):
        first, second = one.getncattr(name), other.getncattr(name)
        same = np.asarray(first).dtype == np.asarray(second).dtype and type(first) is type(second)
        if not same or np.asarray(first).tobytes() != np.asarray(second).tobytes():
            yield f"{where}: {name} {first!r} became {second!r}"
