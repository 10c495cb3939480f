"""Compare two datasets: every array and table of one with that of the same name in the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reblock.api.array import Array
from reblock.api.dataset_ends import DatasetRequest, check_table, chosen_tree, narrowing
from reblock.api.dataset_types import types_of
from reblock.api.verdict import Verdict
from reblock.engine import digest
from reblock.errors import UsageError
from reblock.geometry.notation import parse_region
from reblock.model import Schema, TableSchema, TreeStore


@dataclass(frozen=True)
class HowCompared:
    """How one array of a dataset is compared."""

    region: Any = None
    """The part of the source's array."""
    transpose: tuple[int, ...] | None = None
    """The order of its axes in the target; None = the same."""
    dtype: Any = None
    """The type that its elements are converted to."""
    append_along: str | None = None
    """The axis along which it is the end of the target's array."""


#: Compares two arrays.
Compare = Callable[[Array, Array, HowCompared], Verdict]


@dataclass(frozen=True)
class DatasetVerdict:
    """Whether two datasets hold the same elements."""

    equal: bool
    """Whether all arrays are equal, and none is missing."""
    differences: tuple[str, ...]
    """The differences in words."""
    arrays: Mapping[str, Verdict] = field(default_factory=dict)
    """The verdict on each array or table that both have, by name."""
    source_digest: str | None = None
    """Digest of the source; None if arrays cannot be compared."""
    target_digest: str | None = None
    """Digest of the target, likewise."""

    def __bool__(self) -> bool:
        return self.equal

    @property
    def differing_elements(self) -> int:
        """The number of elements that differ in any bit, in all arrays of the same shape and type."""
        return sum(one.differing_elements or 0 for one in self.arrays.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "source_digest": self.source_digest,
            "target_digest": self.target_digest,
            "differing_elements": self.differing_elements,
            "first_difference": None,
            "differences": list(self.differences),
            "arrays": {name: one.to_json() for name, one in self.arrays.items()},
        }


def compare_datasets(
    source: TreeStore, target: TreeStore, wanted: DatasetRequest, compare: Compare, memory_bytes: int
) -> DatasetVerdict:
    """Compare all arrays and tables; `compare` is how arrays are compared."""
    ours, theirs = chosen_tree(source.tree, wanted, source.location), target.tree
    if wanted.include or wanted.exclude:
        theirs = chosen_tree(theirs, replace(wanted, strict=False), target.location)
    narrow = narrowing({"region": wanted.region, "transpose": wanted.transpose}, ours)
    types, _ = types_of(wanted.dtype, ours, source.location)
    sides: list[dict[str, Schema | TableSchema]] = [{**tree.arrays, **tree.tables} for tree in (ours, theirs)]
    along = wanted.append_along
    if along is not None:
        # An append leaves alone what has no such axis, and does not bring it along.
        sides = _along(sides, along, source.location)
    found = [f"{name} is missing in the target" for name in sides[0] if name not in sides[1]]
    found += [f"{name} is missing in the source" for name in sides[1] if name not in sides[0]]
    verdicts: dict[str, Verdict] = {}
    for name in sides[0]:
        if name not in sides[1]:
            continue
        view = narrow(sides[0][name].axes)
        region, transpose = view["region"], view["transpose"]
        if name in ours.tables and name in theirs.tables:
            check_table(name, transpose)
            verdicts[name] = _compare_tables(name, source, target, region, memory_bytes)
        elif name in ours.arrays and name in theirs.arrays:
            added = along if along in (sides[0][name].axes or ()) else None
            how = HowCompared(region, transpose, types.get(name), added)
            verdicts[name] = compare(Array(source.array(name)), Array(target.array(name)), how)
        else:
            kinds = ["a table" if name in tree.tables else "an array" for tree in (ours, theirs)]
            verdicts[name] = Verdict(False, (f"{kinds[0]} against {kinds[1]}",))
        found += _differences(name, verdicts[name])
    digests = [
        {name: getattr(one, side) for name, one in verdicts.items()} for side in ("source_digest", "target_digest")
    ]
    one, two = map(digest.dataset_digest, digests) if sides[0].keys() == sides[1].keys() else (None, None)
    return DatasetVerdict(not found, tuple(found), verdicts, one, two)


def _along(
    sides: list[dict[str, Schema | TableSchema]], axis: str, where: str
) -> list[dict[str, Schema | TableSchema]]:
    """Both sides without arrays that only one of them has, unless they have the axis."""
    if not any(axis in (one.axes or ()) for one in sides[0].values()):
        raise UsageError(f"no array of {where} has the axis {axis!r}")
    one, two = (
        {name: schema for name, schema in side.items() if name in other or axis in (schema.axes or ())}
        for side, other in ((sides[0], sides[1]), (sides[1], sides[0]))
    )
    return [one, two]


def _differences(name: str, verdict: Verdict) -> list[str]:
    """What differs in an array, in a line, and whether it is still what was written."""
    first = verdict.first_difference
    if first is None:
        return [f"{name}: {one}" for one in verdict.differences]
    place = ", ".join(map(str, first.index))
    count = verdict.differing_elements or 0
    verb = "element differs" if count == 1 else "elements differ"
    words = f"{name}: {count:,} {verb}, first at [{place}]: {first.source} in the source, {first.target} in the target"
    return [words, *(f"{name}: {one}" for one in verdict.differences if not one.startswith("box "))]


def _compare_tables(name: str, source: TreeStore, target: TreeStore, region: Any, memory_bytes: int) -> Verdict:
    one, two = source.tree.tables[name], target.tree.tables[name]
    if why := [table.why for table in (one, two) if table.why]:
        return Verdict(False, (f"it cannot be read: {why[0]}",))
    box = parse_region(region, one.shape, one.axes)
    ranges = list(zip(box.start, box.stop, strict=True))
    if box.shape != two.shape:
        return Verdict(False, (f"shape {box.shape} against {two.shape}",))
    left = table_digest(source, name, replace(one, shape=box.shape), ranges, memory_bytes)
    right = table_digest(target, name, two, [(0, n) for n in two.shape], memory_bytes)
    return Verdict(left == right, () if left == right else ("the rows differ",), left, right)


def table_digest(
    store: TreeStore, name: str, table: TableSchema, ranges: list[tuple[int, int]], memory_bytes: int
) -> str:
    """The digest of a part of a table."""
    taken = digest.TableDigest(table.kind, table.dtype, table.shape)
    (at, stop), *others = ranges or [(0, 1)]
    while at < stop:
        rows = store.rows(name, at, stop, memory_bytes // 4)
        at += len(rows) if table.shape else 1
        taken.update(rows[(slice(None), *(slice(*one) for one in others))] if table.shape else rows)
    return taken.text()
