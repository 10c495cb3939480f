"""What the choice between strategies minds, beyond what random problems show."""

from dataclasses import replace

import pytest
from hypothesis import given

from reblock.cost import PRESETS
from reblock.cost.estimate import SERIAL, ideal_seconds, one_pass_seconds
from reblock.errors import InfeasibleError, Refused
from reblock.geometry import Grid
from reblock.model import Access, Layout, Problem
from reblock.planner import choose
from reblock.strategies import strategies
from reblock.testing.problems import problems

SHAPE = (840, 840, 840)


def problem(memory_bytes: int = 1 << 30, fresh: float = 2e9) -> Problem:
    """Cubes of 84 into cubes of 120, which are written whole."""
    target = replace(Layout.raw("<f4", Grid.of(SHAPE, (120, 120, 120))), partial_writes=False)
    device = replace(PRESETS["nvme"], fresh_bytes_per_second=fresh)
    return Problem(Layout.raw("<f4", Grid.of(SHAPE, (84, 84, 84))), target, memory_bytes, device)


def test_memory_that_costs_time_is_not_taken() -> None:
    free, dear = choose(problem(fresh=1e15)), choose(problem(fresh=1e8))
    assert dear.cost.peak_bytes < free.cost.peak_bytes
    assert dear.cost.seeks > free.cost.seeks == free.problem.lower_bound_seeks


def test_parts_of_objects_go_through_the_page_cache() -> None:
    raw = replace(problem(), target=Layout.raw("<f4", Grid.of(SHAPE, (120, 120, 120))), memory_bytes=64 << 20)
    cheap, dear = (choose(replace(raw, device=replace(raw.device, fresh_bytes_per_second=f))) for f in (1e15, 1e6))
    assert Access.RUNS in {made.write_access for made in cheap.plan.passes}
    assert {made.write_access for made in dear.plan.passes} == {Access.UNITS}


def test_a_strategy_that_cannot_win_is_asked_only_for_show() -> None:
    decision = choose(problem())
    assert decision.skipped == ("multipass",)
    by_name = {other.strategy: other for other in decision.alternatives}
    assert set(by_name) == {"search", *strategies()}
    shown = by_name["multipass"]
    assert shown.cost
    assert shown.cost.seconds >= strategies()["multipass"].least_seconds(decision.problem) > decision.cost.seconds
    assert "× the seconds of" in str(shown.rejected)


@pytest.mark.parametrize("objective", ["seeks", "bytes", "memory"])
def test_everybody_is_asked_for_another_objective(objective: str) -> None:
    assert not choose(problem(), objective=objective).skipped


def test_nobody_else_is_asked_where_nothing_can_be_faster() -> None:
    shape = (512, 512, 512)
    target = replace(Layout.raw("<u2", Grid.of(shape, (64, 16, 128))), partial_writes=False)
    easy = Problem(Layout.raw("<u2", Grid.of(shape, (32, 32, 32))), target, 128 << 20, PRESETS["nvme"])
    decision = choose(easy)
    assert decision.cost.seconds == pytest.approx(ideal_seconds(easy))
    assert decision.search == "exact"
    assert {"search", "multipass"} < set(decision.skipped)
    assert len(decision.alternatives) == 1 + len(strategies())


@given(problems())
def test_no_plan_is_faster_than_the_ideal(asked: Problem) -> None:
    try:
        decision = choose(asked, objective="seeks")
    except (InfeasibleError, Refused):
        return
    for other in decision.alternatives:
        if other.cost is not None:
            assert other.cost.seconds >= ideal_seconds(asked) * (1 - 1e-9), other.strategy
            alone = other.plan is not None and len(other.plan.passes) == 1
            # The search has two passes only where no single one fits.
            assert alone or other.strategy == "search" or strategies()[other.strategy].least_seconds
            if alone:
                assert other.cost.seconds >= one_pass_seconds(asked) * (1 - 1e-9), other.strategy


def test_units_that_meet_more_than_memory_holds_are_read_again() -> None:
    """Slices into columns: a slice meets all columns, and memory holds an eighth of them, or not quite."""
    shape = (2048, 512, 512)
    source = replace(Layout.raw("<f4", Grid.of(shape, (1, 512, 512))), codec="zstd:3", partial_reads=False)
    target = replace(Layout.raw("<f4", Grid.of(shape, (2048, 32, 32))), partial_writes=False)
    device = replace(PRESETS["nvme"], decode_bytes_per_second={})
    memory = (4 << 30, (256 << 20) + source.unit_memory_bytes, 256 << 20)
    roomy, eighth, tight = (Problem(source, target, one, device) for one in memory)
    assert one_pass_seconds(roomy) == ideal_seconds(roomy)
    again = source.nbytes * (1 / device.read_bytes_per_second + SERIAL / device.memory_bytes_per_second)
    assert one_pass_seconds(eighth) == pytest.approx(ideal_seconds(tight) + 7 * again)
    assert one_pass_seconds(tight) == pytest.approx(ideal_seconds(tight) + 8 * again)
    decision = choose(tight)
    assert len(decision.plan.passes) == 2
    assert "search" in decision.skipped
    assert all(a.cost.seconds > decision.cost.seconds for a in decision.alternatives[1:] if a.cost)


def test_what_is_said_to_be_enough_is_enough() -> None:
    """Stretching finds slabs with more memory than they need, and nothing with just that."""
    shape, chunks = (58650, 6571), (58372, 1873)
    objects = Grid.of(shape, chunks, padded=True)
    target = replace(Layout.raw("<u2", objects), codec="blosc:lz4:1", partial_reads=False, partial_writes=False)
    tight = Problem(Layout.raw("<u2", Grid.of(shape, (42824, 6565))), target, 1, PRESETS["nvme"])
    with pytest.raises(InfeasibleError) as refusal:
        choose(tight)
    enough = replace(tight, memory_bytes=refusal.value.needs_memory_bytes or 0)
    assert choose(enough).cost.peak_bytes <= enough.memory_bytes


def test_so_it_is_where_only_some_of_very_many_candidates_are_tried() -> None:
    shape = (336, 84, 56, 125)
    objects = Grid.of(shape, (172, 14, 50, 122), padded=True)
    target = replace(Layout.raw("<f4", objects), codec="zstd:1", partial_reads=False, partial_writes=False)
    tight = Problem(Layout.raw("<f4", Grid.whole(shape)), target, 1, PRESETS["nvme"])
    with pytest.raises(InfeasibleError) as refusal:
        choose(tight)
    enough = replace(tight, memory_bytes=refusal.value.needs_memory_bytes or 0)
    assert choose(enough, objective="seeks").cost.peak_bytes <= enough.memory_bytes
