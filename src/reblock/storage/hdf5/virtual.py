"""Virtual datasets of HDF5: the elements of other datasets that they consist of.

HDF5 returns fill for a source that is missing or cannot be opened, and searches several folders for it. So HDF5 does
not read the elements of a virtual dataset. It only returns the mappings, and reads the elements of each source ::

    virtual    ┌───────────┐        a mapping selects start + stride · i + j along each axis of both sides,
               │ a │ b │ a │        for i < count and j < block; axes along which it selects one element may
               └───────────┘        be on one side only
    sources    a.h5::x   b.h5::x
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from reblock.errors import CorruptError, FormatError
from reblock.geometry import Box
from reblock.storage import checks
from reblock.storage.hdf5.file import library

#: The most mappings that a virtual dataset may have.
_MANY_MAPPINGS = 20_000


@dataclass(frozen=True, slots=True)
class Selection:
    """The elements that a mapping selects along one axis."""

    start: int
    """The first element."""
    stride: int
    """Distance between the starts of two blocks."""
    count: int
    """Number of blocks."""
    block: int
    """Number of elements in a block."""

    @property
    def length(self) -> int:
        return self.count * self.block

    @property
    def is_even(self) -> bool:
        """Whether all elements are equally far apart."""
        return self.count == 1 or self.block in (1, self.stride)

    @property
    def step(self) -> int:
        """Distance between two elements, within a block or if all are equally far apart."""
        return self.stride if self.block == 1 and self.count > 1 else 1

    def at(self, number: int) -> int:
        """The position of the element with a number."""
        return self.start + number // self.block * self.stride + number % self.block

    def first(self, position: int) -> int:
        """The number of the first element at or after a position."""
        if position <= self.start:
            return 0
        block, inside = divmod(position - self.start, self.stride)
        return min(block * self.block + min(inside, self.block), self.length)


@dataclass(frozen=True)
class SourceMap:
    """One mapping from a source dataset to the virtual dataset."""

    file: str
    """File of the source, as it is named; "." = the same file."""
    name: str
    """Path of the source in its file."""
    virtual: tuple[Selection, ...]
    """The elements of the virtual dataset."""
    source: tuple[Selection, ...] | None
    """The corresponding elements of the source; None = all."""

    def of(self, shape: Sequence[int], start: str) -> SourceMap:
        """The same mapping for a source of this shape; an error if the source lacks the elements."""
        source = _all(shape) if self.source is None else self.source
        check_inside(source, shape, start)
        sizes = [[side[axis].length for axis in _long(side)] for side in (source, self.virtual)]
        if sizes[0] != sizes[1]:
            raise FormatError(f"{start}, {sizes[0]} elements as {sizes[1]}: make a dataset of it first, with h5py")
        return replace(self, source=source)

    def pieces(self, box: Box, most: int) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Corresponding slices of a box and of the source, of at most `most` elements each."""
        source = self.source or ()
        pairs = zip(_long(self.virtual), _long(source), strict=True)
        cuts = {one: (two, list(_cuts(self.virtual[one], source[two], box, one))) for one, two in pairs}
        for axis, steps in enumerate(self.virtual):
            if axis not in cuts and not box.start[axis] <= steps.start < box.stop[axis]:
                return
        for chosen in product(*(some for _, some in cuts.values())):
            for ranges in _divide(chosen, most):
                here = [slice(s.start - b, s.start - b + 1) for s, b in zip(self.virtual, box.start, strict=True)]
                there = [slice(s.start, s.start + 1) for s in source]
                for (one, (two, _)), numbers in zip(cuts.items(), ranges, strict=True):
                    here[one] = _slice(self.virtual[one], numbers, box.start[one])
                    there[two] = _slice(source[two], numbers, 0)
                yield tuple(here), tuple(there)


def _all(shape: Sequence[int]) -> tuple[Selection, ...]:
    return tuple(Selection(0, max(n, 1), 1, n) for n in shape)


def _long(axes: Sequence[Selection]) -> list[int]:
    """The axes along which more than one element is selected."""
    return [axis for axis, steps in enumerate(axes) if steps.length > 1]


def _cuts(virtual: Selection, source: Selection, box: Box, axis: int) -> Iterator[range]:
    """Numbers of the elements inside a box, divided if either side is not evenly spaced."""
    now, end = virtual.first(box.start[axis]), virtual.first(box.stop[axis])
    while now < end:
        ends = (now - now % side.block + side.block for side in (virtual, source) if not side.is_even)
        after = min(end, *ends) if not (virtual.is_even and source.is_even) else end
        yield range(now, after)
        now = after


def _divide(ranges: Sequence[range], most: int) -> Iterator[Sequence[range]]:
    """The same elements in small enough parts, cut along the outermost possible axis."""
    if prod(map(len, ranges)) <= most:
        yield ranges
        return
    axis = next(axis for axis, numbers in enumerate(ranges) if len(numbers) > 1)
    half = len(ranges[axis]) // 2
    for part in (ranges[axis][:half], ranges[axis][half:]):
        yield from _divide([*ranges[:axis], part, *ranges[axis + 1 :]], most)


def _slice(steps: Selection, numbers: range, origin: int) -> slice:
    return slice(steps.at(numbers[0]) - origin, steps.at(numbers[-1]) - origin + 1, steps.step)


@dataclass(frozen=True)
class SourceDataset:
    """A source of a virtual dataset, found and allowed."""

    path: str
    """Its file."""
    name: str
    """Its path in the file."""
    shape: tuple[int, ...]
    """Its shape."""
    chunk_bytes: int
    """Bytes of one of its chunks."""
    fill: Any
    """Its fill value."""
    members: tuple[Member, ...] | None = None
    """Its own sources, if it is virtual; None = it stores its elements."""


@dataclass(frozen=True)
class Member:
    """A mapping with its source."""

    part: SourceMap
    """The mapping."""
    source: SourceDataset
    """The source."""


def files_of(members: Sequence[Member] | None) -> set[str]:
    """All files that hold elements of a virtual dataset."""
    found: dict[int, SourceDataset] = {}
    todo = [member.source for member in members or ()]
    while todo:
        source = todo.pop()
        if id(source) not in found:
            found[id(source)] = source
            todo += [member.source for member in source.members or ()]
    return {source.path for source in found.values()}


# -------------------------------------------------------------------- as HDF5 tells it
def mappings_of(dcpl: Any, where: str) -> list[Any]:
    """The mappings of a virtual dataset as JSON, not yet checked."""
    number = dcpl.get_virtual_count()
    if number > _MANY_MAPPINGS:
        raise FormatError(f"{where} is a virtual dataset of {number:,} mappings; at most {_MANY_MAPPINGS:,} are read")
    return [
        [
            dcpl.get_virtual_filename(i),
            dcpl.get_virtual_dsetname(i),
            _selection(dcpl.get_virtual_vspace(i)),
            _selection(dcpl.get_virtual_srcspace(i)),
        ]
        for i in range(number)
    ]


def _selection(space: Any) -> list[list[int]] | str:
    """Start, stride, count and block per axis; a word for a selection without this form."""
    h5s = library().h5s
    kind = space.get_select_type()
    if kind == h5s.SEL_ALL:
        return "all"
    if kind == h5s.SEL_NONE:
        return "nothing"
    if kind != h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        return "points" if kind == h5s.SEL_POINTS else "irregular"
    return [list(map(int, numbers)) for numbers in zip(*space.get_regular_hyperslab(), strict=True)]


# -------------------------------------------------------------------- judged
def read_parts(facts: Sequence[Any], shape: Sequence[int], where: str) -> tuple[SourceMap, ...]:
    """The mappings of a virtual dataset; FormatError if one does not name definite elements."""
    parts = []
    for file, name, virtual, source in facts:
        start = f"{where} is a virtual dataset of {file}::{name}"
        odd = next((one for one in (virtual, source) if isinstance(one, str) and one != "all"), "")
        if odd == "nothing":
            continue
        if odd:
            raise FormatError(f"{start}, of which it takes {odd} elements: make a dataset of it first, with h5py")
        if any(_names_many(one) for one in (file, name)):
            raise FormatError(f"{start}, a name that stands for many (%b): make a dataset of it first, with h5py")
        here = _all(shape) if virtual == "all" else _steps(virtual, start)
        there = None if source == "all" else _steps(source, start)
        if all(steps.length for steps in (*here, *(there or ()))):
            check_inside(here, shape, start)
            parts.append(SourceMap(_plain(file), _plain(name), here, there))
    return tuple(parts)


def check_inside(axes: Sequence[Selection], shape: Sequence[int], start: str) -> None:
    """Raise CorruptError if a selection is not inside an array."""
    if len(axes) != len(shape) or any(s.at(s.length - 1) >= n for s, n in zip(axes, shape, strict=True)):
        ends = [steps.at(steps.length - 1) + 1 for steps in axes]
        raise CorruptError(f"{start}: {ends} elements are selected of {list(shape)}")


def _steps(facts: Sequence[Sequence[Any]], start: str) -> tuple[Selection, ...]:
    axes = []
    for numbers in facts:
        first, stride, count, block = (int(n) for n in numbers)
        if max(count, block) >= 1 << 63:
            raise FormatError(f"{start}, which has no end (H5S_UNLIMITED): make a dataset of it first, with h5py")
        limits = {"stride": stride, "count": count, "block": block, "start": first}
        for what, number in limits.items():
            checks.check_integer(number, what=f"the {what} of a mapping", where=start)
        if count > 1 and stride < block:
            raise CorruptError(f"{start}: blocks of {block} elements begin every {stride}")
        # A single block may have any stride.
        axes.append(Selection(first, stride if count > 1 else max(block, 1), count, block))
    return tuple(axes)


def _names_many(name: str) -> bool:
    """Whether a name has a %b or %4b, for which HDF5 would substitute numbers."""
    rest = name.replace("%%", "")
    return any(word.lstrip("0123456789").startswith("b") for word in rest.split("%")[1:])


def _plain(name: str) -> str:
    return name.replace("%%", "%")
