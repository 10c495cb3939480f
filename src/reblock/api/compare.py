"""`info` and `verify`: describe an array, and compare two."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.api.array import Array, ArraySource, open, open_array
from reblock.api.compare_datasets import DatasetVerdict, HowCompared, compare_datasets
from reblock.api.conversion import as_type
from reblock.api.dataset import Dataset
from reblock.api.dataset_ends import DatasetRequest, find_tree
from reblock.api.dataset_types import by_name
from reblock.api.described import describe_array, describe_dataset
from reblock.api.ends import AnySource
from reblock.api.joining import joined_source
from reblock.api.machine import cores, parse_memory
from reblock.api.request import one_of
from reblock.api.spreading import DisksGiven, allowed_folders
from reblock.api.verdict import Difference, Verdict
from reblock.engine import ComparedArray, View, compare, digest
from reblock.engine.casting import is_convertible
from reblock.errors import FormatError, MisfitError, ReblockError, UsageError, option, options
from reblock.geometry import Box
from reblock.geometry.grid import inverse
from reblock.geometry.notation import Order, Ranges, parse_axis, parse_order, parse_region
from reblock.model import Schema, Sums, TreeStore
from reblock.model.disks import Spread
from reblock.planner import plan_comparison
from reblock.storage.conventions import are_times
from reblock.storage.library import LibraryArray, open_with_library
from reblock.storage.location import Where
from reblock.storage.objects.store import ObjectStore

#: The most differing boxes that `verify` lists.
MANY_DIFFERENCES = 10
#: The default memory budget of a comparison.
VERIFY_MEMORY = "256MiB"


class Cast(NamedTuple):
    """How to convert the source's elements before comparing them."""

    dtype: Any
    """The type."""
    checked: bool
    """Whether a value that does not survive counts as a difference."""


@dataclass(frozen=True)
class _VerifyOptions:
    """How two arrays are compared."""

    region: Ranges | None
    """The region of the source."""
    transpose: Order | None
    """The source's axes in the target's order."""
    memory_bytes: int
    """The memory budget."""
    allow: Sequence[Where]
    """Folders to which links in either array may lead."""
    reader: str
    """`reblock` or `library`."""
    cast: Cast | None
    """How the source's elements are converted."""
    append_along: str | int | None
    """The axis of the append that wrote the part of the target to compare."""
    into_region: Ranges | None
    """The region of the target to compare."""

    @property
    def is_partial(self) -> bool:
        """Whether only a part of the target is compared."""
        return self.append_along is not None or self.into_region is not None

    def require_dataset(self) -> None:
        """Raise UsageError for options that do not apply to datasets."""
        if self.into_region is not None:
            raise UsageError(f"{option('into_region')} is for one array, not for datasets")


def verify(
    source: AnySource,
    target: AnySource,
    *,
    region: Ranges | None = None,
    transpose: Order | None = None,
    memory: str | int = VERIFY_MEMORY,
    from_format: str | None = None,
    to_format: str | None = None,
    allow_external: Sequence[Where] = (),
    disks: DisksGiven | None = None,
    reader: str = "reblock",
    dtype: Any = None,
    unsafe_cast: bool = False,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    concat: str | int | None = None,
    stack: str | None = None,
    append_along: str | int | None = None,
    into_region: Ranges | None = None,
) -> Verdict | DatasetVerdict:
    """Compare two arrays bit by bit, whatever their layouts, in one pass over both.

    If both are files or groups with several arrays, every array is compared with that of the same name, and the result
    is a `DatasetVerdict`. Then `region` and `transpose` name axes, and `include` and `exclude` choose arrays by
    patterns of names.

    If a digest is stored with the target, it is compared with that of its current elements. With `reader="library"`,
    h5py, zarr-python or numpy read both arrays instead of reblock's code. The library then opens the files in this
    process: do not use it on files that you do not trust. `disks` are those of block folders that are spread over some.
    `concat` and `stack` join many sources, as in `open`. With `append_along` or `into_region`, only the part of the
    target is compared that a run with these options has written last, or that region.

    With the `dtype` and `unsafe_cast` of the run that made the target, the source's elements are converted as the run
    did, and the results are compared; an element that does not survive differs. Of datasets, `append_along` names an
    axis: arrays without it are compared whole.

    Examples
    --------
    >>> import numpy, reblock
    >>> verdict = reblock.verify(numpy.arange(6), numpy.array([0, 1, 2, 3, 7, 5]))
    >>> verdict.equal, verdict.differing_elements, verdict.first_difference.index
    (False, 1, (4,))
    """
    if unsafe_cast and dtype is None:
        raise UsageError(f"{option('unsafe_cast')} is for elements of another type: give {option('dtype')}")
    one_of("reader", reader, ("reblock", "library"))
    allow = allowed_folders(allow_external, disks)
    ends: list[tuple[Any, str | None, Sequence[Where]]] = [
        (joined_source(source, concat, stack), from_format, allow),
        (target, to_format, allow),
    ]
    cast = None if dtype is None else Cast(dtype, checked=not unsafe_cast)
    how = _VerifyOptions(region, transpose, parse_memory(memory), allow, reader, cast, append_along, into_region)
    trees = None
    chosen = bool(include or exclude or by_name(dtype))
    if chosen or not all(isinstance(end, str | os.PathLike) for end, _, _ in ends):
        trees = _trees_of(ends, require=chosen)
    if trees is None:
        try:
            return _verify_arrays(ends[0][0], ends[1][0], (from_format, to_format), how)
        except FormatError:
            trees = _trees_of(ends)
            if trees is None:
                raise
    how.require_dataset()
    along = None if append_along is None else str(append_along)
    wanted = DatasetRequest(include, exclude, region, transpose, dtype, along)

    def compare_arrays(left: Array, right: Array, one: HowCompared) -> Verdict:
        cast = None if one.dtype is None else Cast(one.dtype, checked=not unsafe_cast)
        options = replace(how, region=one.region, transpose=one.transpose, cast=cast, append_along=one.append_along)
        return _verify_arrays(left, right, (None, None), options)

    return compare_datasets(*trees, wanted, compare_arrays, how.memory_bytes)


def _trees_of(
    ends: Sequence[tuple[Any, str | None, Sequence[Where]]], *, require: bool = False
) -> tuple[TreeStore, TreeStore] | None:
    """Both sides as datasets; None if one of them is an array."""
    one, two = (find_tree(*end, require=require) for end in ends)
    if one is not None and two is not None:
        return one, two
    if any(isinstance(end, TreeStore | Dataset) for end, _, _ in ends):
        raise UsageError("a dataset cannot be compared with an array: name one of its arrays")
    return None


def _verify_arrays(
    source: ArraySource, target: ArraySource, formats: tuple[str | None, str | None], how: _VerifyOptions
) -> Verdict:
    sides = [(source, formats[0]), (target, formats[1])]
    # The stored digest, units and axis names are metadata, which our code reads for either reader.
    if how.reader == "library":
        one, two = (_open_library(where, kind, how.allow) for where, kind in sides)
        schemas = [
            _schema(one.location if isinstance(where, str | os.PathLike) else where, kind, how.allow)
            for one, (where, kind) in zip((one, two), sides, strict=True)
        ]
        names = schemas[0].axes if schemas[0] else None
        left_region = parse_region(how.region, one.grid.shape, names)
        axes = parse_order(how.transpose, one.grid.ndim, names)
        left = _library_side(one, left_region, axes)
        there = _compared_part(two.grid.shape, schemas[1].axes if schemas[1] else None, left.layout.shape, how)
        right = _library_side(two, there, tuple(range(two.grid.ndim)))
        name = two.location
    else:
        ours, theirs = (open_array(where, kind, how.allow).store for where, kind in sides)
        left_region = parse_region(how.region, ours.layout.shape, ours.schema.axes)
        axes = parse_order(how.transpose, ours.layout.ndim, ours.schema.axes)
        left = ComparedArray.of(View(ours, left_region, axes), how.memory_bytes, cores())
        there = _compared_part(theirs.layout.shape, theirs.schema.axes, left.layout.shape, how)
        right = ComparedArray.of(replace(View.whole(theirs), region=there), how.memory_bytes, cores())
        name, schemas = theirs.location, [ours.schema, theirs.schema]
    if how.cast is None:
        verdict = _verdict(*_as_integers(left, right, schemas), left_region, axes, how.memory_bytes)
    else:
        verdict = _verdict_on_cast(left, right, how.cast, left_region, axes, how.memory_bytes)
    stored = None if schemas[1] is None or how.is_partial else schemas[1].record.digest
    return replace(verdict, differences=(*_since_written(name, stored, verdict.target_digest), *verdict.differences))


def _compared_part(
    shape: Sequence[int], names: Sequence[str] | None, source_shape: Sequence[int], how: _VerifyOptions
) -> Box:
    """The part of the target that is compared with a source."""
    if how.append_along is None:
        return parse_region(how.into_region, shape, names)
    if how.into_region is not None:
        raise UsageError(f"{options('append_along', 'into_region')} do not go together: leave one of them out")
    axis = parse_axis(how.append_along, len(shape), names)
    length = source_shape[axis] if axis < len(source_shape) else 0
    start = tuple(max(n - length, 0) if d == axis else 0 for d, n in enumerate(shape))
    return Box(start, tuple(shape))


def _as_integers(
    left: ComparedArray, right: ComparedArray, schemas: Sequence[Schema | None]
) -> tuple[ComparedArray, ComparedArray]:
    """Dates and durations as integers, if the other side has integers whose attributes mark them as the same."""
    kinds = [side.layout.dtype.newbyteorder("=") for side in (left, right)]
    if schemas[1] is not None and are_times(schemas[1], kinds[0]):
        return _integers(left), right
    if schemas[0] is not None and are_times(schemas[0], kinds[1]):
        return left, _integers(right)
    return left, right


def _integers(side: ComparedArray) -> ComparedArray:
    dtype = np.dtype(np.int64).newbyteorder(side.layout.dtype.byteorder)
    return replace(
        side,
        layout=replace(side.layout, dtype=dtype),
        load=lambda box, memory_bytes: side.load(box, memory_bytes).view(dtype),
    )


def _verdict(
    left: ComparedArray, right: ComparedArray, region: Box, axes: tuple[int, ...], memory_bytes: int
) -> Verdict:
    """The verdict on both sides."""
    if left.layout.shape != right.layout.shape:
        return Verdict(False, (f"shape {left.layout.shape} against {right.layout.shape}",))
    kinds = [side.layout.dtype.newbyteorder("=") for side in (left, right)]
    if kinds[0] != kinds[1]:
        advice = f" (with dtype {kinds[1].str[1:]}, it is converted first)" if is_convertible(*kinds) else ""
        return Verdict(False, (f"dtype {kinds[0]} against {kinds[1]}{advice}",))
    found: list[str] = []
    totals = [Sums(), Sums()]
    count, first = 0, None
    least = (left.least_bytes, right.least_bytes)
    boxes, reading_bytes = plan_comparison(left.layout, right.layout, least, memory_bytes, cores())
    for part in compare(left, right, boxes, axes=inverse(axes), reading_bytes=reading_bytes):
        totals = [totals[0] + part.one, totals[1] + part.two]
        count += part.differing
        if part.first and len(found) < MANY_DIFFERENCES:
            found.append(f"box {part.box}")
        if part.first and (first is None or part.first.place < first.place):
            first = part.first
    one, two = (digest.text(total, kinds[0], right.layout.shape) for total in totals)
    told = None
    if first is not None:
        index = tuple(place + start for place, start in zip(first.place, region.start, strict=True))
        told = Difference(index, *_told(first.one, first.two))
    return Verdict(not count, tuple(found), one, two, count, told)


def _verdict_on_cast(
    left: ComparedArray, right: ComparedArray, cast: Cast, region: Box, axes: tuple[int, ...], memory_bytes: int
) -> Verdict:
    """The verdict on the converted source and the target."""
    made = as_type(left, cast.dtype, checked=cast.checked)
    # A box of the source and its converted copy are held at the same time.
    after, before = made.layout.itemsize, left.layout.itemsize
    memory_bytes = memory_bytes * 2 * after // (2 * after + before)
    try:
        return _verdict(made, right, region, axes, memory_bytes)
    except MisfitError as error:
        index = Box(error.index, tuple(i + 1 for i in error.index)).permute(inverse(axes)).shift(region.start).start
        return Verdict(False, (f"element {list(index)} of the source is {error}",))


def _told(one: npt.NDArray[Any], two: npt.NDArray[Any]) -> tuple[Any, Any]:
    """Two elements as JSON values; with their bits if they look the same otherwise."""
    left, right = _value(one), _value(two)
    if repr(left) != repr(right):
        return left, right
    return f"{left} (0x{_bits(one)})", f"{right} (0x{_bits(two)})"


def _value(element: npt.NDArray[Any]) -> Any:
    """A number or a boolean unchanged, anything else as text."""
    kind, scalar = element.dtype.kind, element[0]
    if kind in "biu" or (kind == "f" and element.dtype.itemsize <= 8):
        return scalar.item()
    if kind == "V":
        return f"0x{_bits(element)}"
    return scalar.decode("ascii", "backslashreplace") if kind == "S" else str(scalar)


def _bits(element: npt.NDArray[Any]) -> str:
    """Bits of an element in hexadecimal; the highest first if it is a number."""
    turned = sys.byteorder == "little" and element.dtype.kind not in "SUV"
    return str((element.byteswap() if turned else element).tobytes().hex())


def _open_library(where: ArraySource, format: str | None, allow: Sequence[Where]) -> LibraryArray:
    folders = [os.fspath(folder) for folder in allow]
    if isinstance(where, str | os.PathLike):
        return open_with_library(os.fspath(where), format, folders)
    store = open_array(where, None if isinstance(where, Array) else format, allow).store
    if isinstance(store, ObjectStore):
        return store.with_library()
    return open_with_library(store.location, store.format, folders)


def _library_side(array: LibraryArray, region: Box, axes: tuple[int, ...]) -> ComparedArray:
    """A region of an array with reordered axes, read by a library."""
    places = inverse(axes)

    def load(box: Box, memory_bytes: int) -> Any:
        return array.read(box.permute(places).shift(region.start), memory_bytes).transpose(axes)

    return ComparedArray(array.layout.view(region, axes), array.least_bytes, load)


def _schema(where: ArraySource, format: str | None, allow: Sequence[Where]) -> Schema | None:
    """The schema of an array, or None if our code cannot read it."""
    with suppress(ReblockError):
        return open_array(where, format, allow).store.schema
    return None


def _since_written(location: str, stored: str | None, now: str | None) -> list[str]:
    """The difference between the digest stored with an array and that of its elements, if any."""
    if stored is None or now is None or stored == now or stored.split("-")[0] != digest.VERSION:
        return []
    return [f"{location} is not what was written: the digest stored with it is {stored}, its elements have {now}"]


def info(
    source: ArraySource,
    *,
    format: str | None = None,
    allow_external: Sequence[Where] = (),
    disks: DisksGiven | None = None,
    memory: str | int | None = None,
    concat: str | int | None = None,
    stack: str | None = None,
) -> dict[str, Any]:
    """Layout and metadata of a stored array, as `reblock info --json` prints them; no elements are read.

    For a file or group with several arrays, the result has the keys `arrays`, `groups` and `tables`.

    Examples
    --------
    >>> import numpy, reblock
    >>> report = reblock.repartition(numpy.zeros((6, 4)), "memory://info/x.zarr", chunks=(2, 4))
    >>> about = reblock.info("memory://info/x.zarr")
    >>> about["format"], about["shape"], about["chunks"]
    ('zarr', [6, 4], [2, 4])
    """
    source = joined_source(source, concat, stack)
    try:
        store = open(source, format=format, allow_external=allow_external, disks=disks, memory=memory).store
    except FormatError:
        dataset = find_tree(source, format, allow_external)
        if dataset is None:
            raise
        return describe_dataset(dataset)
    described = describe_array(store.schema, store.format)
    return {**described, "disks": list(store.disk_paths) if isinstance(store, Spread) else []}
