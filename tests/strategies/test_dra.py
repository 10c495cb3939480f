"""DRA: the paper's numbers, the formulas against brute force, and plans that hold on any problem."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from math import gcd, lcm, prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reblock.cost import PRESETS, estimate, held_elements
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.passes.common_cuts import lazy
from reblock.passes.family import needed_bytes
from reblock.passes.templates import (
    choose_template,
    geometric_mean,
    geometric_thirds,
    io_cost,
    lcm_block,
    max_block,
    memory_cost,
    shrink,
    traversal_order,
    unused_bound,
)
from reblock.planner.check import check
from reblock.strategies.dra import balance, offsets, propose
from reblock.testing.problems import problems

S, T = (32, 9), (5, 16)
NVME = PRESETS["nvme"]


def raw(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str = "u1") -> Layout:
    return Layout.raw(dtype, Grid.of(shape, chunks))


def encoded(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str = "f4") -> Layout:
    grid = Grid.of(shape, chunks, padded=True)
    order = tuple(range(len(shape)))
    return Layout(np.dtype(dtype), grid, grid, order, "blosc:zstd:3:shuffle", partial_reads=False, partial_writes=False)


# ------------------------------------------------------------------ the paper's example
def test_blocks_of_the_papers_example() -> None:
    assert lcm_block(S, T) == (160, 144)
    assert lcm_block(S, T, (100, 1000)) == (100, 144)
    assert max_block(S, T) == (32, 18)
    assert unused_bound(S, T) == (4, 8)
    assert geometric_mean(S, T) == (12, 12)


def test_the_second_dimension_is_traversed_first() -> None:
    assert traversal_order(unused_bound(S, T), max_block(S, T), lcm_block(S, T)) == (1, 0)


def test_a_full_lcm_block_needs_1408_elements() -> None:
    assert memory_cost(S, T, (160, 144)) == 1408
    assert choose_template(S, T, 1408) == (160, 144)
    assert choose_template(S, T, 1407) != (160, 144)


def test_template_for_900_elements() -> None:
    def fits(counts: tuple[int, ...]) -> bool:
        return memory_cost(S, T, (counts[0] * 5, counts[1] * 16)) <= 900

    # The paper stops after the first phase; the second finds the same memory with fewer reads.
    assert shrink([range(1, 33), range(1, 10)], fits) == (24, 1)
    assert choose_template(S, T, 900) == (160, 16)
    assert memory_cost(S, T, (120, 16)) == memory_cost(S, T, (160, 16)) == 896
    assert io_cost(S, T, (160, 16)) < io_cost(S, T, (120, 16))


def test_no_template_below_a_max_block() -> None:
    assert choose_template(S, T, prod(max_block(S, T)) - 1) is None


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=4))
def test_the_exchange_rule_gives_the_smallest_sum(pairs: list[tuple[int, int]]) -> None:
    s, t = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    unused, maximum, template = unused_bound(s, t), max_block(s, t), lcm_block(s, t)

    def cost(order: tuple[int, ...]) -> int:
        total = prod(maximum)
        for place, axis in enumerate(order):
            term = unused[axis]
            for other in range(len(order)):
                if other != place:
                    term *= template[order[other]] if other < place else maximum[order[other]]
            total += term
        return total

    assert memory_cost(s, t, template) == min(map(cost, permutations(range(len(s)))))


@given(st.lists(st.tuples(st.integers(1, 24), st.integers(1, 24)), min_size=1, max_size=2))
def test_lazy_reads_stay_below_the_papers_bound(pairs: list[tuple[int, int]]) -> None:
    s, t = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    shape = tuple(2 * lcm(a, b) for a, b in pairs)
    source, target = Grid.of(shape, s), Grid.of(shape, t)
    read = Grid(tuple(map(lazy, source.axes, target.axes)))
    template = lcm_block(s, t)
    order = traversal_order(unused_bound(s, t), max_block(s, t), template)[::-1]
    sweep = Pass(read, target, Grid.of(shape, template), order, Access.RUNS, Access.RUNS)
    assert held_elements(sweep) <= memory_cost(s, t, template)


@given(st.integers(1, 60), st.integers(1, 60))
def test_lazy_reads_leave_over_at_most_u(s: int, t: int) -> None:
    length = lcm(s, t)
    target = Axis.regular(length, t)
    for cut in lazy(Axis.regular(length, s), target).cuts().tolist():
        assert cut - cut // t * t <= min(s, t) - gcd(s, t)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3))
def test_io_cost_is_exact_where_the_template_divides(pairs: list[tuple[int, int]]) -> None:
    s, t = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    whole = lcm_block(s, t)
    for template in product(
        *([k * b for k in range(1, n // b + 1) if n // b % k == 0] for b, n in zip(t, whole, strict=True))
    ):
        read = 1
        for a, k, n in zip(s, template, whole, strict=True):
            read *= sum(len(range(start // a, -(-(start + k) // a))) * a for start in range(0, n, k))
        assert read == io_cost(s, t, template) * prod(whole)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_thirds_are_exact_roots(s: int, t: int) -> None:
    (two,), (three,) = geometric_thirds((s,), (t,))
    assert two**3 <= s * s * t < (two + 1) ** 3
    assert three**3 <= s * t * t < (three + 1) ** 3


# ------------------------------------------------------------------ plans
def served(problem: Problem, plan: Plan) -> None:
    """Everything that must hold of a plan."""
    check(plan, problem)
    assert needed_bytes(plan, problem) <= problem.memory_bytes
    again = Plan.from_json(plan.to_json())
    for one, other in zip(plan.passes, again.passes, strict=True):
        assert replace(one, read=Grid(()), write=Grid(()), tasks=Grid(())) == replace(
            other, read=Grid(()), write=Grid(()), tasks=Grid(())
        )
        for left, right in ((one.read, other.read), (one.write, other.write), (one.tasks, other.tasks)):
            assert [axis.lengths() for axis in left.axes] == [axis.lengths() for axis in right.axes]
    for sweep, _, target in plan.sides(problem.source, problem.target):
        written = np.zeros(plan.shape, np.int64)
        for index in sweep.writes.indices():
            box = sweep.writes.box(index)
            written[(*box.slices, ...)] += 1
            objects = list(target.objects.touching(box))
            assert len(objects) == 1
            if not target.partial_writes:
                assert target.objects.box(objects[0]) == box
        assert (written == 1).all()


def attempt(problem: Problem) -> Plan | Refused:
    try:
        return propose(problem)
    except Refused as refusal:
        return refusal


@given(problems(), st.booleans())
def test_any_problem_is_served_or_refused_with_what_would_do(problem: Problem, held: bool) -> None:
    problem = replace(problem, held=held)
    plan = attempt(problem)
    if isinstance(plan, Refused):
        assert plan.needs_memory_bytes is not None
        assert plan.needs_memory_bytes > problem.memory_bytes
        problem = replace(problem, memory_bytes=plan.needs_memory_bytes)
        plan = propose(problem)
    assert len(plan.passes) == 1
    served(problem, plan)


@pytest.mark.parametrize(("source", "target", "seeks", "memory"), [(350, 250, 3744, 1.5e9), (175, 250, 10744, 1.5e9)])
def test_table_3_reaches_the_lower_bound_where_the_grids_meet(
    source: int, target: int, seeks: int, memory: float
) -> None:
    shape = (3500,) * 3
    layouts = raw(shape, (source,) * 3, "u2"), raw(shape, (target,) * 3, "u2")
    problem = Problem(*layouts, int(memory), NVME, held=True)
    assert estimate(propose(problem), problem).seeks == problem.lower_bound_seeks == seeks


@pytest.mark.parametrize("memory", [900, 1408])
def test_a_plan_is_no_worse_than_the_papers_template(memory: int) -> None:
    problem = Problem(raw((1600, 1440), S), raw((1600, 1440), T), memory, NVME, held=True)
    plan = propose(problem)
    template = choose_template(S, T, memory)
    assert template is not None
    cost = estimate(plan, problem)
    assert cost.read_amplification <= io_cost(S, T, template)


def test_less_memory_reads_more() -> None:
    source, target = encoded((6400, 5760), (320, 90)), encoded((6400, 5760), (50, 160))
    seen = []
    for memory in (2 << 20, 800_000, 500_000, 400_000):
        problem = Problem(source, target, memory, NVME)
        seen.append(estimate(propose(problem), problem).bytes_read)
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_contiguous_files_are_taken_in_pieces(order: tuple[int, int]) -> None:
    whole = Grid.whole((4096, 4096))
    problem = Problem(Layout.raw("f4", whole, order), Layout.raw("f4", whole), 1 << 20, NVME)
    plan = propose(problem)
    check(plan, problem)
    cost = estimate(plan, problem)
    assert cost.bytes_read == cost.bytes_written == problem.target.nbytes
    assert cost.peak_bytes <= 1 << 20


def test_refusal_names_the_bytes() -> None:
    problem = Problem(encoded((64, 64), (8, 8)), encoded((64, 64), (64, 64)), 1000, NVME)
    with pytest.raises(Refused, match="smallest template needs") as refusal:
        propose(problem)
    assert refusal.value.needs_memory_bytes == needed_bytes(
        propose(Problem(problem.source, problem.target, 10**6, NVME)), problem
    )


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1)])
def test_arrays_without_room(shape: tuple[int, ...]) -> None:
    chunks = tuple(2 for _ in shape)
    problem = Problem(encoded(shape, chunks), raw(shape, chunks, "f4"), 10**6, NVME)
    check(propose(problem), problem)


# ------------------------------------------------------------------ Fig. 6
def test_balance_of_the_papers_example() -> None:
    counts = (4, 4)  # 10×10 in blocks of 3×3
    assert offsets(counts, 2) == (1, 0)
    assert balance(counts, 2) == [(2, 1)]
    assert balance(counts, 6, clamped=False) == [(6, 1), (2, 3)]
    assert balance(counts, 6) == [(2, 3), (4, 1)]


@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(1, 12))
@example([4, 4], 6)
def test_balanced_boxes_have_no_two_blocks_of_one_writer(counts: list[int], writers: int) -> None:
    order = tuple(range(len(counts)))[::-1]
    found = balance(counts, writers, order)
    assert found
    for factors in found:
        assert all(1 <= f <= n for f, n in zip(factors, counts, strict=True))
        grid = np.arange(prod(counts)).reshape(counts) % writers
        for start in product(*(range(n - f + 1) for f, n in zip(factors, counts, strict=True))):
            box = grid[tuple(slice(a, a + f) for a, f in zip(start, factors, strict=True))]
            assert len(np.unique(box)) == box.size
