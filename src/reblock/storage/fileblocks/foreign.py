"""Folders of block files that other programs made: names or headers tell where each block belongs.

::

    b_0_0.nii  b_0_1.nii     numbers count blocks, from 0 or from 1
    b_0_0.nii  b_0_64.nii    or are the position of the block's first element
    origin: [0, 64]          or an attribute of that name tells the position
    affine                   or the places of the blocks in space differ by whole steps

Every file is opened once, for its shape, type and the place of its elements. Files whose bytes before the elements are
those of an earlier file need not be opened by their library again. Blocks that are missing or overlap are named.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice, pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from reblock.errors import FormatError, UsageError, either, option
from reblock.geometry import Grid
from reblock.model.medium import FILE, Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema
from reblock.model.store import Format, Index
from reblock.storage import registry
from reblock.storage.checks import show
from reblock.storage.fileblocks.manifest import RAW
from reblock.storage.fileblocks.pattern import NamePattern, guess_pattern
from reblock.storage.fileblocks.templates import elements_run, no_block_format
from reblock.storage.media.files import disk_errors
from reblock.storage.media.small import read_head
from reblock.storage.space import AFFINE, affine_in, scaling_of

#: The attribute that tells the position of a block's first element.
ORIGIN = "origin"
#: The most files that a message names.
_SHOWN = 5
#: The most headers that are remembered.
_MOST_HEADS = 64


class _Block(NamedTuple):
    """A file that holds a block."""

    name: str
    """Its name."""
    shape: tuple[int, ...]
    """Its lengths."""
    dtype: np.dtype[Any]
    """Type of its elements."""
    order: tuple[int, ...]
    """Order of its axes on disk."""
    offset: int
    """Bytes before its elements."""
    attributes: Mapping[str, Any]
    """Its attributes."""
    fill_value: Any
    """Its fill value."""
    axes: tuple[str, ...] | None
    """Names of its axes."""


def find_blocks(
    folder: str, kind: str, pattern: NamePattern | None, roots: Roots | None, medium: Medium
) -> tuple[Schema, dict[Index, tuple[str, int]]]:
    """The array that the files of a folder make up, and file and offset of each block."""
    if kind == RAW:
        raise UsageError(f"{folder}: raw blocks have no headers, so their folder needs a manifest; name their format")
    files = registry.get(kind)
    with disk_errors("list", folder):
        names = sorted(name for name, what in medium.entries(folder) if what == FILE and not name.startswith("."))
    if pattern is None:
        names = [name for name in names if name.lower().endswith(tuple(files.suffixes))]
    else:
        names = [name for name in names if pattern.match(name, pattern.ndim or name.count("_") + 1) is not None]
    if not names:
        said = f"match {pattern.text}" if pattern else f"end in {either(files.suffixes)}"
        raise FormatError(f"{folder}: no block files: none of its files {said}")
    blocks = _open_all(folder, names, files, roots, medium)
    first = blocks[0]
    for block in blocks:
        if (block.dtype, len(block.shape), block.order) != (first.dtype, len(first.shape), first.order):
            raise FormatError(
                f"{folder}: {block.name} holds {block.dtype} with axes {list(block.order)}, "
                f"{first.name} holds {first.dtype} with axes {list(first.order)}: they are not blocks of one array"
            )
    _check_scaling(folder, blocks)
    cuts, places = _arrange(folder, blocks, pattern)
    shape = tuple(map(sum, cuts))
    corner = places[(0,) * len(shape)]
    attributes = {key: value for key, value in corner.attributes.items() if key != ORIGIN}
    schema = Schema(
        *(shape, first.dtype, tuple(cuts)),
        order=first.order,
        fill_value=first.fill_value,
        attributes=attributes,
        axes=first.axes,
    )
    Grid.of(shape, cuts)
    return schema, {index: (block.name, block.offset) for index, block in places.items()}


def _check_scaling(folder: str, blocks: Sequence[_Block]) -> None:
    """FormatError if the stored elements of two blocks do not mean the same."""
    # Blocks with the same head share their attributes.
    distinct = {id(block.attributes): block for block in blocks}
    first, *others = distinct.values()
    wanted = scaling_of(first.attributes)
    for block in others:
        found = scaling_of(block.attributes)
        for name in dict.fromkeys([*wanted, *found]):
            one, other = (np.asarray(scaling.get(name, ())) for scaling in (found, wanted))
            if not np.array_equal(one, other):
                raise FormatError(
                    f"{folder}: {name} of {block.name}: {show(one.tolist())}, but {show(other.tolist())} in "
                    f"{first.name}: their numbers do not mean the same; save all blocks with one scaling"
                )


def _open_all(folder: str, names: Sequence[str], format: Format, roots: Roots | None, medium: Medium) -> list[_Block]:
    known: dict[tuple[int, bytes], _Block] = {}
    lengths: set[int] = set()
    blocks = []
    for name in names:
        path = os.path.join(folder, name)
        head, size = read_head(medium, path, max(lengths, default=0), roots)
        same = next((known[key] for length in lengths if (key := (size, head[:length])) in known), None)
        if same is None:
            same = _open(path, name, format, medium)
            if not _has_tail(same, size) and len(known) < _MOST_HEADS:
                known[size, read_head(medium, path, same.offset, roots)[0]] = same
                lengths.add(same.offset)
        blocks.append(same._replace(name=name))
    return blocks


def _has_tail(block: _Block, size: int) -> bool:
    """Whether there are bytes after the elements, in which files may differ."""
    return size != block.offset + int(np.prod(block.shape, dtype=object)) * block.dtype.itemsize


def _open(path: str, name: str, format: Format, medium: Medium) -> _Block:
    store = format.open(path, "", **registry.elsewhere(medium))
    run = elements_run(store)
    if run is None:
        raise FormatError(f"{path}: {no_block_format(format.name)}; convert such files one by one")
    schema, layout = store.schema, store.layout
    return _Block(
        *(name, schema.shape, layout.dtype, layout.order, run[0]),
        attributes=schema.attributes,
        fill_value=schema.fill_value,
        axes=schema.axes,
    )


# ---------------------------------------------------------------- positions
def _arrange(
    folder: str, blocks: Sequence[_Block], pattern: NamePattern | None
) -> tuple[list[tuple[int, ...]], dict[Index, _Block]]:
    """The lengths of blocks along each axis, and the block at each index."""
    ndim = len(blocks[0].shape)
    by_header = None if pattern is not None else _origins(blocks, ndim)
    if by_header is not None:
        numbers = by_header
    else:
        pattern = pattern or guess_pattern([block.name for block in blocks], ndim)
        in_space = None if pattern is not None else _steps_in_space(blocks, ndim)
        if in_space is None and (pattern is None or pattern.ndim not in (None, ndim)):
            raise FormatError(
                f"{folder}: neither names nor headers of {len(blocks)} files such as {blocks[0].name} tell where the "
                f"blocks belong: name the numbers with {option('pattern')}, such as b_{{0}}_{{1}}.npy, one per axis"
            )
        by_header = in_space
        numbers = in_space or [pattern.match(block.name, ndim) or () for block in blocks if pattern is not None]
    cuts: list[tuple[int, ...]] = []
    indices: list[dict[int, int]] = []
    counts: dict[int, list[int]] = {}
    for axis in range(ndim):
        lengths = _lengths(folder, axis, blocks, [number[axis] for number in numbers])
        starts = sorted(lengths)
        counted = by_header is None and not _are_positions(lengths)
        if counted:
            _check_counted(folder, axis, starts, pattern, ndim)
            counts[axis] = starts
        else:
            _check_positions(folder, axis, lengths, blocks, numbers)
        cuts.append(tuple(lengths[start] for start in starts))
        indices.append({start: place for place, start in enumerate(starts)})
    _check_bases(folder, counts, pattern, ndim)
    places: dict[Index, _Block] = {}
    for block, number in zip(blocks, numbers, strict=True):
        index = tuple(known[n] for known, n in zip(indices, number, strict=True))
        if index in places:
            raise FormatError(f"{folder}: {places[index].name} and {block.name} are the same block of the array")
        places[index] = block
    _check_missing(folder, [sorted(known) for known in indices], places, pattern)
    return cuts, places


def _check_missing(
    folder: str, starts: Sequence[Sequence[int]], places: Mapping[Index, _Block], pattern: NamePattern | None
) -> None:
    """FormatError if there is no block somewhere in the grid; places are never enumerated beyond the first few."""
    count = prod(map(len, starts)) - len(places)
    if not count:
        return
    missing = (index for index in product(*(range(len(one)) for one in starts)) if index not in places)
    names = [
        _name(pattern, tuple(starts[axis][i] for axis, i in enumerate(index))) for index in islice(missing, _SHOWN)
    ]
    more = f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
    words = "a block is missing" if count == 1 else f"{count:,} blocks are missing"
    raise FormatError(f"{folder}: {words}: {', '.join(names)}{more}")


def _check_bases(folder: str, counts: Mapping[int, Sequence[int]], pattern: NamePattern | None, ndim: int) -> None:
    """FormatError if blocks are counted from 0 along one axis and from 1 along another: the first ones are missing."""
    zero = [axis for axis, numbers in counts.items() if numbers[0] == 0 and len(numbers) > 1]
    one = [axis for axis, numbers in counts.items() if numbers[0] == 1]
    if zero and one:
        raise FormatError(
            f"{folder}: blocks are counted from 0 along axis {zero[0]}, but along axis {one[0]} there is none with "
            f"number 0, such as {_name(pattern, (0,) * ndim)}"
        )


def _origins(blocks: Sequence[_Block], ndim: int) -> list[Index] | None:
    """The positions that headers tell; None unless all do."""
    found = []
    for block in blocks:
        value = np.asarray(block.attributes.get(ORIGIN))
        if value.dtype.kind not in "iu" or value.shape != (ndim,) or (value < 0).any():
            return None
        found.append(tuple(map(int, value)))
    return found


def _steps_in_space(blocks: Sequence[_Block], ndim: int) -> list[Index] | None:
    """Positions from the affines of blocks, if these differ by whole steps along the axes only."""
    affines = [affine_in(block.attributes.get(AFFINE)) for block in blocks]
    first = affines[0]
    known = [affine for affine in affines if affine is not None]
    if first is None or len(known) < len(affines) or not np.linalg.det(first[:3, :3]):
        return None
    if not all(np.allclose(affine[:3, :3], first[:3, :3], rtol=1e-4, atol=1e-6) for affine in known):
        return None
    moves = np.linalg.solve(first[:3, :3], np.stack([affine[:3, 3] - first[:3, 3] for affine in known], axis=1)).T
    steps = np.rint(moves)
    if not np.allclose(moves, steps, atol=0.01) or (ndim < 3 and steps[:, ndim:].any()):
        return None
    steps -= steps.min(axis=0)
    return [(*map(int, step[:ndim]), *(0,) * (ndim - 3)) for step in steps]


def _lengths(folder: str, axis: int, blocks: Sequence[_Block], numbers: Sequence[int]) -> dict[int, int]:
    """The length of the blocks with each number along an axis."""
    lengths: dict[int, tuple[int, str]] = {}
    for block, number in zip(blocks, numbers, strict=True):
        length, name = lengths.setdefault(number, (block.shape[axis], block.name))
        if length != block.shape[axis]:
            raise FormatError(
                f"{folder}: {name} and {block.name} have {length} and {block.shape[axis]} elements along axis {axis}, "
                "where they must be equal: they are no blocks of one grid"
            )
        if not length:
            raise FormatError(f"{folder}: {block.name} has no elements along axis {axis}")
    return {number: length for number, (length, _) in lengths.items()}


def _are_positions(lengths: Mapping[int, int]) -> bool:
    """Whether numbers are positions of elements rather than counts of blocks."""
    numbers = sorted(lengths)
    if numbers[0] in (0, 1) and numbers[-1] - numbers[0] + 1 == len(numbers):
        return False
    if numbers == [0, *accumulate(lengths[number] for number in numbers[:-1])]:
        return True
    # Something is missing: positions are far apart.
    return numbers[0] == 0 and numbers[-1] + 1 > 2 * len(numbers) and lengths[0] > 1


def _check_counted(folder: str, axis: int, numbers: Sequence[int], pattern: NamePattern | None, ndim: int) -> None:
    first = 0 if numbers[0] == 0 else 1
    bounds = pairwise([first - 1, *numbers])
    if missing := list(islice((number for low, high in bounds for number in range(low + 1, high)), _SHOWN + 1)):
        example = [first] * ndim
        example[axis] = missing[0]
        shown = ", ".join(map(str, missing[:_SHOWN])) + (" …" if len(missing) > _SHOWN else "")
        raise FormatError(
            f"{folder}: blocks are missing along axis {axis}: there is none with number {shown}, such as "
            f"{_name(pattern, tuple(example))}"
        )


def _check_positions(
    folder: str, axis: int, lengths: Mapping[int, int], blocks: Sequence[_Block], numbers: Sequence[Index]
) -> None:
    def name(start: int) -> str:
        return next(block.name for block, number in zip(blocks, numbers, strict=True) if number[axis] == start)

    starts = sorted(lengths)
    if starts[0]:
        raise FormatError(f"{folder}: no block begins at 0 along axis {axis}; the first is {name(starts[0])}")
    for one, two in pairwise(starts):
        end = one + lengths[one]
        if end != two:
            what = "overlap" if end > two else f"leave a gap of {two - end}"
            raise FormatError(
                f"{folder}: {name(one)} and {name(two)} {what} along axis {axis}: one ends at {end}, the next begins "
                f"at {two}"
            )


def _name(pattern: NamePattern | None, index: Index) -> str:
    return f"the one at {','.join(map(str, index))}" if pattern is None else pattern.name(index)
