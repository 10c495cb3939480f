"""The plan check refuses every plan that would not do what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reblock.cost import PRESETS, estimate
from reblock.errors import InfeasibleError, UsageError
from reblock.geometry import Grid
from reblock.model import PIECE_BYTES, Access, Layout, Pass, Plan, Problem
from reblock.planner import check, choose

SHAPE = (40, 60)


def layout(chunks: tuple[int, int], codec: str = "") -> Layout:
    grid = Grid.of(SHAPE, chunks)
    made = Layout.raw("<u2", grid)
    return replace(made, codec=codec, partial_reads=False, partial_writes=False) if codec else made


def problem(source: str = "", target: str = "", memory: int = 1 << 20) -> Problem:
    return Problem(layout((4, 60), source), layout((40, 4), target), memory, PRESETS["nvme"])


def with_pass(plan: Plan, **changes: object) -> Plan:
    return replace(plan, passes=(replace(plan.passes[0], **changes),))


def with_execution(plan: Plan, **changes: int | tuple[int, ...]) -> Plan:
    return with_pass(plan, execution=replace(plan.passes[0].execution, **changes))


@pytest.mark.parametrize("source", ["", "zstd:3"])
@pytest.mark.parametrize("target", ["", "zstd:3"])
def test_a_chosen_plan_passes(source: str, target: str) -> None:
    check(choose(problem(source, target)).plan, problem(source, target))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: replace(p, shape=(60, 40)), r"shape \(60, 40\), not \(40, 60\)"),
        (lambda p: replace(p, passes=p.passes * 2), "2 passes need 1 intermediate"),
        (lambda p: with_pass(p, order=(0, 0)), "pass 1: the order .* not a permutation"),
        (lambda p: with_pass(p, read=Grid.whole((40, 59))), r"the read grid covers \(40, 59\)"),
        (lambda p: with_pass(p, tasks=Grid.whole((41, 60))), r"the task grid covers \(41, 60\)"),
        (lambda p: with_pass(p, read_access=Access.RUNS), "byte runs cannot be read"),
        (lambda p: with_pass(p, write=Grid.of(SHAPE, (40, 8))), "spans several target chunks"),
        (lambda p: with_pass(p, write=Grid.of(SHAPE, (40, 2))), "write boxes cut them"),
        (lambda p: with_pass(p, write_access=Access.RUNS), "can only be written whole"),
        (lambda p: replace(p, divided=True), "disagree on reading"),
    ],
)
def test_a_plan_that_moves_wrong_things_is_refused(spoil: Callable[[Plan], Plan], message: str) -> None:
    wanted = problem("zstd:3", "zstd:3")
    plan = choose(wanted, strategy="keep").plan
    with pytest.raises(UsageError, match=message):
        check(spoil(plan), wanted)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units_in_flight": 1}, "units in flight, not 1"),
        ({"piece_bytes": PIECE_BYTES + 1}, "pieces of 4194305 bytes, the limit is 4194304"),
        ({"slab_axes": (1,)}, r"slabs along \(1,\)"),
        ({"buffer_bytes": 4799}, "write boxes need 4800 bytes, the plan grants 4799"),
        ({"flight_bytes": 1}, r"units in flight need \d+ bytes, the plan grants 1"),
        ({"memory_bytes": 9600}, r"the pass need \d+ bytes, the plan grants 9600"),
    ],
)
def test_an_execution_with_too_little_memory_is_refused(changes: dict[str, int], message: str) -> None:
    wanted = problem("zstd:3")
    plan = choose(wanted, strategy="keep").plan
    assert plan.passes[0].execution.units_in_flight > 1
    check(plan, wanted)
    with pytest.raises(UsageError, match=message):
        check(with_execution(plan, **changes), wanted)


def test_more_readers_than_there_is_memory_for_are_refused() -> None:
    plan = choose(problem(), strategy="keep").plan
    readers = plan.passes[0].execution.readers + 1
    with pytest.raises(UsageError, match=f"{readers} readers have {readers} units in flight, not {readers - 1}"):
        check(with_execution(plan, readers=readers), problem())


def test_a_plan_beyond_the_budget_is_refused() -> None:
    plan = choose(problem()).plan
    needed = plan.passes[0].execution.memory_bytes
    check(plan, problem(memory=needed))
    with pytest.raises(InfeasibleError, match=f"needs .*{needed} bytes.*, the budget is {needed - 1} bytes") as refusal:
        check(plan, problem(memory=needed - 1))
    assert refusal.value.needs_memory_bytes == needed
    # The papers' count of memory knows nothing of what the engine allocates.
    check(plan, replace(problem(memory=needed - 1), held=True))


def test_passes_that_interleave_share_tasks_and_scratch() -> None:
    middle, whole, halves = layout((20, 30)), Grid.whole(SHAPE), Grid.of(SHAPE, (20, 60))
    wanted = replace(problem(), target=layout((20, 4)))

    def plan(first: Grid, second: Grid, middle: Layout) -> Plan:
        legs = (wanted.source, middle, first), (middle, wanted.target, second)
        made = [Pass(a.objects, b.objects, t, (0, 1), Access.RUNS, Access.RUNS) for a, b, t in legs]
        return Plan("by hand", SHAPE, tuple(made), (middle,), interleaved=True)

    check(plan(halves, halves, middle), wanted)
    with pytest.raises(UsageError, match="share their task grid"):
        check(plan(halves, whole, middle), wanted)
    with pytest.raises(UsageError, match="may not span several tasks"):
        check(plan(halves, halves, layout((40, 30))), wanted)


def chain(arrays: int, target: str = "") -> tuple[Plan, Problem]:
    """A plan through equal intermediate arrays, all but one of which may lie in the target's space or in scratch."""
    wanted = problem("", target)
    one = choose(wanted, strategy="naive").plan
    between = layout((40, 4))
    first = replace(one.passes[0], write_access=Access.UNITS, execution=None)
    return replace(one, passes=(first,) * (arrays + 1), scratch=(between,) * arrays), wanted


def test_every_second_array_may_lie_in_the_targets_space() -> None:
    plan, wanted = chain(3)
    check(plan, wanted)
    both = replace(plan, scratch_in_target=True)
    check(both, wanted)
    assert [both.in_target(number) for number in range(3)] == [False, True, False]
    assert both.along(1, 2, 3) == [1, 2, 3, 2, 3]
    assert not any(plan.in_target(number) for number in range(3))
    size = wanted.source.nbytes
    assert [estimate(one, wanted).scratch_bytes for one in (plan, both)] == [2 * size, size]


@pytest.mark.parametrize(
    ("arrays", "target", "changes", "message"),
    [
        (1, "", {}, "only three passes"),
        (2, "", {"interleaved": True}, "only three passes"),
        (2, "zstd:3", {}, "an encoded target may be smaller"),
        (2, "", {"scratch": (Layout.raw("<f8", Grid.of(SHAPE, (40, 4))), layout((40, 4)))}, "larger than the target"),
    ],
)
def test_an_array_that_cannot_lie_in_the_targets_space(
    arrays: int, target: str, changes: dict[str, object], message: str
) -> None:
    plan, wanted = chain(arrays, target)
    with pytest.raises(UsageError, match=message):
        check(replace(plan, scratch_in_target=True, **changes), wanted)
