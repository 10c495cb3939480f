"""Stretch: a buffer of source blocks grows in disk order as far as memory allows, and keeps what it can.

::

    Θ        Ω                The buffer B of draft B. Λ, the input aggregate, is the fewest source blocks
    ┌───────┬───┐             that cover a target block. Of a buffer Λ the part Θ completes target blocks,
    │       │ F1│ Θ           the overlaps F1, F2, F3 (F4 … in the third dimension) belong to the next.
    │       │   │
    ├───────┼───┤             I–II   B_k = Λ_k, F1 kept; B_j grows, as far as it goes
    │  F2   │ F3│ Ω           III    B_j = Λ_j; F3 kept if it fits (storeF3), else axis j is not kept
    └───────┴───┘             IV–V   the same with B_i and F4 (storeF4)

As a point of the family: R = B, T = A, W_d = O_d on the axes that are kept and R_d ∪ O_d on those that are not,
which is what `volumesToKeep` says. The drafts' estimates of Σ are replaced by the exact peak of memory. One axis
after the other, fastest first, takes the cut that seeks least among those that fit while the slower axes are still
cut thin; a second round looks again with all of them grown. The cuts tried go *beyond Λ*: more source blocks, up to
where boundaries of I and O coincide and nothing is left over, up to the whole axis; and below it, where buffers are
*broken* into single source blocks (draft A, VII.B) and only the target blocks are assembled. If all axes can be
kept at such lengths every block is moved whole, n_I + n_O seeks, so those buffers are tried first, and of them the
one that needs least memory is taken.

Buffers are read along the axis of the largest overlap first (draft B, section M), or in the order of the disk (draft A,
VII.A), whichever holds less.

Guédon, Hayot-Sasson and Glatard, "Dask IO" drafts A and B.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product

from reblock.cost.memory import held_elements
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Access, Pass, Plan, Problem
from reblock.passes.candidates import (
    Choice,
    Rank,
    box_bytes,
    candidate,
    choice,
    count_seeks,
    disk_orders,
    needs,
    plan_of,
    too_large,
)
from reblock.passes.common_cuts import common_cuts
from reblock.passes.cuts import aggregate, countable, divisors, joined, read_cuts

NAME = "stretch"

#: Buffers of whole blocks that are tried first.
MANY_BUFFERS = 256

#: Cuts that an axis may take while the buffer grows, and rounds over the axes.
MANY_STATIONS = 32
MANY_ROUNDS = 3

#: How near, as a fraction, a buffer comes to the longest that fits.
NEARLY = 64

Choices = tuple[Choice, ...]

#: Rank, bytes needed, pass, and the choices that it was made of.
Priced = tuple[Rank, int, Pass, Choices]


def propose(problem: Problem) -> Plan:
    """Buffers of whole blocks if one of them fits, else the most stretched buffer."""
    found = _price_all(problem, _whole_buffers(problem))
    fitting = sorted((one for one in found if one[0] <= problem.memory_bytes), key=lambda one: one[0])
    plan = _first(problem, [made for _, made in fitting])
    if plan is not None:
        return plan
    options = [_options(problem, axis) for axis in range(len(problem.shape))]
    seeds = _seeds(problem, options)
    tried = [_grow(problem, seed, storage, options) for seed, storage in product(seeds, disk_orders(problem))]
    grown = sorted((one for one in tried if one is not None), key=lambda one: one[:2])
    best = [_stretch_out(problem, one) for one in grown[:1]]
    plan = _first(problem, [made for _, _, made, _ in (*best, *grown)])
    if plan is not None:
        return plan
    smallest = min((needed for needed, _ in (*found, *_price_all(problem, seeds))), default=problem.memory_bytes + 1)
    raise too_large(problem, smallest, "the smallest buffer")


def _first(problem: Problem, passes: Iterable[Pass]) -> Plan | None:
    """The plan of the first buffer that the layouts allow."""
    for made in passes:
        try:
            return plan_of(NAME, problem, made)
        except Refused:
            continue
    return None


def _whole_buffers(problem: Problem) -> list[Choices]:
    """Buffers of whole source blocks with every axis kept, small boxes first."""
    lists = [
        [choice(problem, axis, cut, keep=True) for cut in _whole_cuts(problem, axis)]
        for axis in range(len(problem.shape))
    ]
    buffers = sorted(product(*lists), key=lambda choices: box_bytes(problem, choices))
    fitting = [choices for choices in buffers if box_bytes(problem, choices) <= problem.memory_bytes]
    return fitting[:MANY_BUFFERS] or buffers[:1]


def _whole_cuts(problem: Problem, axis: int) -> list[Axis]:
    """Lengths to try: one source block, Λ, up to where I and O coincide, and the whole axis."""
    source, target = problem.source.objects.axes[axis].clipped(), problem.target.objects.axes[axis].clipped()
    cuts = [source, aggregate(source, target.largest), common_cuts(source, target), Axis.single(source.length)]
    return [cut for cut in dict.fromkeys(cuts) if countable(cut, target)]


def _seeds(problem: Problem, options: Sequence[list[Choice]]) -> list[Choices]:
    """Buffers to start from: one target block, which needs least; else also one element and one source block."""
    axes = range(len(options))
    target, units = problem.target.objects.clipped().axes, problem.source.units.clipped().axes
    seeds = [tuple(choice(problem, axis, target[axis], keep=True) for axis in axes)]
    if problem.target.partial_writes:
        seeds.append(tuple(choice(problem, axis, units[axis], keep=False) for axis in axes))
        if problem.source.partial_reads:
            seeds.append(tuple(cuts[-1] for cuts in options))
    return seeds


def _grow(problem: Problem, choices: Choices, storage: Sequence[int], options: Sequence[list[Choice]]) -> Priced | None:
    """The buffer stretched along one axis after the other, the fastest first, until nothing more is gained."""
    best = _better(problem, choices, None)
    for _ in range(MANY_ROUNDS):
        before = best
        for axis in reversed(storage):
            for option in options[axis]:
                best = _better(problem, (*choices[:axis], option, *choices[axis + 1 :]), best) or best
            choices = best[3] if best is not None else choices
        if best is before:
            break
    return best


def _stretch_out(problem: Problem, best: Priced) -> Priced:
    """Stretch each axis once more as far as memory allows, to a block or, inside a source block, an element: φ."""
    for axis in reversed(problem.source.order):
        source, target = problem.source.objects.axes[axis].clipped(), problem.target.objects.axes[axis].clipped()
        for blocks in (source, target):
            best = _farthest(problem, best, axis, blocks)
        if best[3][axis].read.largest < source.largest and problem.source.partial_reads:
            best = _farthest(problem, best, axis, Axis.regular(source.length, 1))
    return best


def _farthest(problem: Problem, best: Priced, axis: int, blocks: Axis) -> Priced:
    """The best buffer with one axis cut into the longest runs of blocks that fit, if that is better."""
    _, needed, _, choices = best
    length, target = choices[axis].read.largest, problem.target.objects.axes[axis].clipped()
    step = blocks.period or blocks.largest
    if length < blocks.largest:
        return best

    def price(count: int) -> int | None:
        nonlocal best
        read = joined(blocks, count)
        if not countable(read, target):
            return needed * step * count // length
        tried = choice(problem, axis, read, keep=choices[axis].whole)
        stretched = (*choices[:axis], tried, *choices[axis + 1 :])
        best = _better(problem, stretched, best) or best
        priced = _price(problem, stretched)
        return None if priced is None else priced[0]

    low, high = 1, min(blocks.count, problem.memory_bytes * length // max(box_bytes(problem, choices) * step, 1)) + 1
    while high - low > low // NEARLY:
        middle = (low + high) // 2
        size = price(middle)
        low, high = (middle + 1, high) if size is not None and size <= problem.memory_bytes else (low, middle)
    even = [n // step for n in divisors(target.period or 1, low * step) if n % step == 0]
    price(max(even, default=1))
    return best


def _better(problem: Problem, choices: Choices, best: Priced | None) -> Priced | None:
    """The priced buffer if it fits and seeks less than the best, or as much in less memory."""
    if box_bytes(problem, choices) > problem.memory_bytes:
        return None
    rank = count_seeks(problem, candidate(problem, choices, problem.source.order))
    if best is not None and rank > best[0]:
        return None
    priced = _price(problem, choices)
    if priced is None or priced[0] > problem.memory_bytes or (best is not None and (rank, priced[0]) >= best[:2]):
        return None
    return rank, *priced, choices


def _options(problem: Problem, axis: int) -> list[Choice]:
    """Cuts of an axis, kept and, if the target allows it, not kept; the thinnest is last."""
    length, most = problem.shape[axis], min(MANY_STATIONS, max(96 // len(problem.shape), 12))
    reads = list(dict.fromkeys((*_whole_cuts(problem, axis), *read_cuts(problem, axis, length, most))))
    reads.sort(key=lambda read: -read.largest)
    kept = [choice(problem, axis, read, keep=True) for read in reads]
    if not problem.target.partial_writes:
        return kept
    written = [choice(problem, axis, read, keep=False) for read in reads]
    return list(dict.fromkeys(reversed([*kept, *written])))[::-1]


def _price(problem: Problem, choices: Choices) -> tuple[int, Pass] | None:
    """The pass in the order that needs the least memory: along the largest overlap, or in disk order."""
    try:
        orders = dict.fromkeys((_by_overlap(problem, choices), *disk_orders(problem)))
        passes = [candidate(problem, choices, order) for order in orders]
        priced = [needs(problem, made) for made in passes]
    except Refused:
        return None
    place = priced.index(min(priced))
    return priced[place], passes[place]


def _price_all(problem: Problem, buffers: Iterable[Choices]) -> list[tuple[int, Pass]]:
    """The cuts that can be priced."""
    return [priced for buffer in buffers if (priced := _price(problem, buffer)) is not None]


def _by_overlap(problem: Problem, choices: Choices) -> tuple[int, ...]:
    """Axes from the smallest overlap to the largest, so that buffers follow each other along the largest."""
    overlaps = {axis: _overlap(one) for axis, one in enumerate(choices)}
    return tuple(sorted(problem.source.order, key=lambda axis: overlaps[axis]))


@lru_cache(maxsize=4096)
def _overlap(one: Choice) -> float:
    """Ω over B: the largest part of a buffer's length that is left over along an axis."""
    line = Pass(Grid((one.read,)), Grid((one.write,)), Grid.whole((one.read.length,)), (0,), Access.RUNS, Access.RUNS)
    return held_elements(line) / one.read.largest - 1 if one.read.largest else 0.0
