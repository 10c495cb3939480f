"""KEEP: Table 4 of the thesis, as printed and as its corrected count would have it."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import PRESETS, estimate
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Access, Layout, Pass, Problem
from reblock.strategies import keep, strategies

CONFIGS = [
    ((875, 875, 875), (875, 1750, 875)),
    ((875, 875, 875), (700, 875, 700)),
    ((350, 350, 350), (500, 500, 500)),
    ((350, 350, 350), (250, 250, 250)),
    ((175, 175, 175), (250, 250, 250)),
    ((350, 875, 350), (500, 875, 500)),
    ((350, 875, 350), (350, 500, 350)),
]
#: r̂ of each config and the elements held with it.
BEST = [
    ((875, 1750, 875), 1_339_843_750),
    ((875, 875, 875), 7_288_750_000),
    ((700, 700, 700), 5_464_000_000),
    ((350, 350, 350), 2_524_875_000),
    ((350, 350, 350), 2_524_875_000),
    ((700, 875, 700), 5_337_500_000),
    ((350, 875, 350), 566_562_500),
]
#: Corrected KEEP under 4 GB: read shape, seeks, GB held.
CORRECTED = [
    ((875, 1750, 875), 96, 2.680),
    ((700, 875, 875), 356, 1.715),
    ((350, 700, 700), 2568, 1.330),
    ((250, 350, 350), 7144, 0.4125),
    ((175, 350, 350), 20_544, 0.28875),
    ((350, 875, 700), 1296, 0.67375),
    ((350, 875, 350), 1100, 1.133),
]
#: Table 4 under 4 and 8 GB: read shape, exact seeks.
PRINTED = {
    4: [
        ((875, 1750, 875), 96),
        ((700, 875, 875), 356),
        ((500, 700, 700), 3143),
        ((250, 350, 350), 7144),
        ((250, 350, 350), 25_144),
        ((500, 875, 700), 1316),
        ((350, 875, 350), 1100),
    ],
    8: [
        ((875, 1750, 875), 96),
        ((700, 875, 875), 356),
        ((500, 700, 700), 3143),
        ((350, 350, 350), 3744),
        ((350, 350, 350), 10_744),
        ((500, 875, 700), 1316),
        ((350, 875, 350), 1100),
    ],
}
LARGE = [
    ((2000,) * 3, (2000, 4000, 2000)),
    ((2000,) * 3, (1600,) * 3),
    ((800,) * 3, (1000,) * 3),
    ((800,) * 3, (500,) * 3),
    ((200,) * 3, (250,) * 3),
    ((200,) * 3, (160,) * 3),
    ((400,) * 3, (500,) * 3),
    ((400,) * 3, (250,) * 3),
]
LARGE_BOUNDS = [96, 189, 1512, 5096, 96_768, 189_000, 12_096, 40_768]


def raw(shape, source, target, memory, *, dtype="u2", held=True):
    layouts = [Layout.raw(dtype, Grid.of(shape, chunks)) for chunks in (source, target)]
    return Problem(*layouts, memory, PRESETS["nvme"], held=held)


def small(config, gigabytes):
    return raw((3500,) * 3, *CONFIGS[config], gigabytes * 10**9)


@pytest.mark.parametrize("config", range(7))
def test_corrected_choice_under_4_gb(config):
    problem = small(config, 4)
    plan = keep.propose(problem)
    shape, seeks, held = CORRECTED[config]
    cost = estimate(plan, problem)
    assert plan.passes[0].read == Grid.of((3500,) * 3, shape)
    assert cost.seeks == seeks
    assert cost.held_bytes / 1e9 == pytest.approx(held, rel=2e-3)


@pytest.mark.parametrize("gigabytes", [4, 8])
@pytest.mark.parametrize("config", range(7))
def test_table_4_as_printed(config, gigabytes):
    problem = small(config, gigabytes)
    plan = strategies()["keep-printed"].propose(problem)
    shape, seeks = PRINTED[gigabytes][config]
    assert plan.passes[0].read == Grid.of((3500,) * 3, shape)
    assert estimate(plan, problem).seeks == seeks


@pytest.mark.parametrize("propose", [keep.propose, strategies()["keep-printed"].propose], ids=["keep", "printed"])
@pytest.mark.parametrize("config", range(7))
def test_the_best_shape_is_taken_where_it_fits(config, propose):
    shape, elements = BEST[config]
    problem = replace(small(config, 256), memory_bytes=2 * elements)
    plan = propose(problem)
    cost = estimate(plan, problem)
    assert plan.passes[0].read == Grid.of((3500,) * 3, shape)
    assert (cost.seeks, cost.held_bytes) == (problem.lower_bound_seeks, 2 * elements)
    less = propose(replace(problem, memory_bytes=2 * elements - 1))
    assert less.passes[0].read != plan.passes[0].read


@pytest.mark.parametrize("config", range(8))
def test_large_array(config):
    problem = raw((8000,) * 3, *LARGE[config], 10**12)
    assert estimate(keep.propose(problem), problem).seeks == LARGE_BOUNDS[config]


@pytest.mark.parametrize(("config", "peak"), list(enumerate([85750, 466480, 349696, 161592, 161592, 341600, 36260])))
def test_scaled_peak(config, peak):
    source, target = (tuple(n // 25 for n in chunks) for chunks in CONFIGS[config])
    problem = raw((140,) * 3, source, target, 10**9, dtype="u1")
    assert estimate(keep.propose(problem), problem).held_bytes == peak


def test_the_engine_needs_more_than_is_held():
    problem = replace(small(3, 4), held=False, memory_bytes=2 * BEST[3][1])
    plan = keep.propose(problem)
    assert plan.passes[0].read != Grid.of((3500,) * 3, BEST[3][0])
    assert estimate(plan, problem).peak_bytes <= problem.memory_bytes


def thesis_candidates(problem):
    """Algorithm 2 by listing: every read shape whose C_d divides A_d, with its seeks and its peak."""
    shape, I, O = problem.shape, problem.source.objects.largest, problem.target.objects.largest
    best = [i * -(-o // i) for i, o in zip(I, O, strict=True)]
    lists = [[c for c in range(1, r + 1) if n % c == 0] for n, r in zip(shape, best, strict=True)]
    lists[-1] = [min(best[-1], shape[-1])]
    for C in product(*lists):
        read = Grid.of(shape, C)
        write = Grid(
            tuple(
                o if c >= o.largest else r.refine(o)
                for c, r, o in zip(C, read.axes, problem.target.objects.axes, strict=True)
            )
        )
        order = tuple(range(len(shape)))
        made = Pass(read, write, Grid.whole(shape), order, Access.RUNS, Access.RUNS)
        seeks = sum(
            oracle.traffic(grid.axes, layout, "runs", writing=writing)[2]
            for grid, layout, writing in ((read, problem.source, False), (write, problem.target, True))
        )
        yield C, seeks, oracle.sweep(made).held


@given(data=st.data())
def test_no_candidate_of_the_thesis_that_fits_is_better(data):
    shape = data.draw(st.sampled_from([(6, 8), (12, 9), (4, 6, 6), (6, 4, 8)]))
    chunks = [tuple(data.draw(st.integers(1, n)) for n in shape) for _ in range(2)]
    problem = raw(shape, *chunks, 10**6, dtype="u1")
    found = list(thesis_candidates(problem))
    problem = replace(problem, memory_bytes=data.draw(st.sampled_from(sorted({held for _, _, held in found}))))
    best = min(seeks for _, seeks, held in found if held <= problem.memory_bytes)
    assert estimate(keep.propose(problem), problem).seeks <= best


@pytest.mark.parametrize(
    ("source", "memory", "shape", "seeks"),
    [(840, 2 * 10**9, (240, 840, 840), 3786), (560, 5 * 10**8, (63, 1120, 1120), 22_684)],
)
def test_the_whole_candidate_list_is_tried(source, memory, shape, seeks):
    """5040 has 60 divisors: the product of its candidates is not thinned."""
    problem = raw((5040,) * 3, (source,) * 3, (720,) * 3, memory)
    plan = keep.propose(problem)
    assert plan.passes[0].read == Grid.of((5040,) * 3, shape)
    assert estimate(plan, problem).seeks == seeks


@pytest.mark.parametrize(
    ("shape", "source", "target", "memory", "seeks"),
    [
        ((48, 60, 36), (48, 20, 12), (3, 3, 36), 949, {None: 2576, 1: 2784, 10: 2576}),
        ((48, 60, 36), (16, 4, 2), (12, 20, 36), 1692, {None: 4080, 1: 13_104, 10: 7020}),
        ((24, 36, 24), (12, 36, 12), (6, 4, 8), 2240, {None: 220, 1: 464, 10: 464}),
    ],
)
def test_the_stop_after_ten_tries_without_gain_is_an_option(shape, source, target, memory, seeks):
    problem = raw(shape, source, target, memory, dtype="u1")
    for stop_after, expected in seeks.items():
        assert estimate(keep.propose(problem, stop_after=stop_after), problem).seeks == expected


def test_axes_that_are_read_short_are_not_kept():
    problem = small(2, 4)
    (made,) = keep.propose(problem).passes
    assert made.write.axes[1:] == problem.target.objects.axes[1:]
    assert made.write.axes[0] == made.read.axes[0].refine(problem.target.objects.axes[0])
    assert (made.tasks, made.order) == (Grid.whole((3500,) * 3), (0, 1, 2))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_any_order_on_disk_is_the_same_problem(order):
    shape, source, target = (12, 20, 30), (4, 5, 6), (3, 10, 5)
    plain = raw(shape, source, target, 900)
    places = [order.index(axis) for axis in range(3)]
    turned = [Grid.of([(shape)[p] for p in places], [chunks[p] for p in places]) for chunks in (source, target)]
    problem = replace(plain, source=Layout.raw("u2", turned[0], order), target=Layout.raw("u2", turned[1], order))
    assert estimate(keep.propose(problem), problem).seeks == estimate(keep.propose(plain), plain).seeks


def test_irregular_blocks_are_joined_until_they_cover_a_target_block():
    problem = raw((20, 12), ((3, 4, 6, 2, 5), 4), ((8, 7, 5), 6), 10**6)
    plan = keep.propose(problem)
    assert plan.passes[0].read == Grid.of((20, 12), ((13, 7), 8))
    assert estimate(plan, problem).seeks == problem.lower_bound_seeks


def test_where_not_even_a_row_fits_the_last_axis_is_shortened():
    problem = raw((8, 8), (8, 8), (2, 4), 12)
    assert keep.propose(problem).passes[0].read.largest[1] < 8


def test_refused_where_nothing_fits():
    problem = raw((8, 8), (3, 4), (5, 4), 1)
    with pytest.raises(Refused, match="2 bytes") as refusal:
        keep.propose(problem)
    assert refusal.value.needs_memory_bytes == 2
