"""Every golden number of the papers that the formulas of geometry and cost give."""

from __future__ import annotations

import pytest

from reblock.bench.papers import figures as papers
from reblock.bench.papers.figures import CONFIGS_3500, CONFIGS_8000, ITEM_BYTES, Config
from reblock.cost import PRESETS, held_elements, traffic
from reblock.geometry import Grid
from reblock.model import Access, Layout, Pass, Problem

ALL = [pytest.param(c, id=f"{c.shape[0]}-{k}") for row in (CONFIGS_3500, CONFIGS_8000) for k, c in enumerate(row)]
SMALL = [pytest.param(k, c, id=str(k)) for k, c in enumerate(CONFIGS_3500)]
FOUR_GB = 4_000_000_000


def counts(made: Pass, source: Layout, target: Layout) -> tuple[int, int]:
    """Seeks and runs of both sides."""
    sides = (
        traffic(made.reads, source, made.read_access),
        traffic(made.writes, target, made.write_access, writing=True),
    )
    return sum(side.seeks for side in sides), sum(side.runs for side in sides)


def baseline(source: Grid, target: Grid) -> Pass:
    return Pass(source, source.refine(target), source, (0, 1, 2), Access.RUNS, Access.RUNS)


def keep(read: Grid, target: Grid) -> Pass:
    return Pass(read, target, Grid.whole(target.shape), (0, 1, 2), Access.RUNS, Access.RUNS)


@pytest.mark.parametrize("config", ALL)
def test_blocks_and_lower_bound(config: Config) -> None:
    source, target = config.layouts()
    assert source.objects.count == config.source_count
    assert target.objects.count == config.target_count
    problem = Problem(source, target, FOUR_GB, PRESETS["ssd"])
    assert problem.lower_bound_seeks == config.lower_bound == config.source_count + config.target_count


def test_table_3_in_full() -> None:
    """The README's own rows, so that a slip in the shipped constants shows."""
    assert [c.lower_bound for c in CONFIGS_3500] == [96, 164, 1343, 3744, 10744, 596, 1100]
    assert [c.lower_bound for c in CONFIGS_8000] == [96, 189, 1512, 5096, 96768, 189000, 12096, 40768]
    assert [c.best.seeks for c in CONFIGS_3500 if c.best] == [96, 260, 1637, 3744, 10744, 596, 1100]
    assert [c.thesis.seeks for c in CONFIGS_3500 if c.thesis] == [96, 356, 3143, 7144, 25144, 1316, 1100]
    assert [c.keep.seeks for c in CONFIGS_3500 if c.keep] == [96, 356, 2568, 7144, 20544, 1296, 1100]
    gigabytes = [round(c.keep.held_bytes / 1e9, 3) for c in CONFIGS_3500 if c.keep]
    assert gigabytes == [2.68, 1.715, 1.33, 0.412, 0.289, 0.674, 1.133]  # the README rounds 0.4125 up
    bounds = [[int(k.held_bytes / 1e7 + 0.5) / 100 for k in c.bound] for c in CONFIGS_3500]
    assert bounds == [[2.68], [4.93], [10.61, 6.06], [2.89, 1.09], [2.45, 1.59, 0.76], [3.19, 2.26], [0.31]]


@pytest.mark.parametrize("config", ALL)
def test_baseline_seeks_and_runs(config: Config) -> None:
    source, target = config.layouts()
    seeks, runs = counts(baseline(source.objects, target.objects), source, target)
    assert seeks == config.baseline_seeks
    if config.baseline_runs is not None:
        assert runs == config.baseline_runs


@pytest.mark.parametrize(("number", "config"), SMALL)
def test_largest_read_and_what_it_holds(number: int, config: Config) -> None:
    rounded = tuple(i * -(-o // i) for i, o in zip(config.source, config.target, strict=True))
    assert rounded == config.largest_read
    source, target = config.layouts()
    made = keep(Grid.of(config.shape, config.largest_read), target.objects)
    assert held_elements(made) == config.held_elements
    assert counts(made, source, target)[0] == config.lower_bound


@pytest.mark.parametrize(("number", "config"), SMALL)
def test_scaled_by_25(number: int, config: Config) -> None:
    shape, source, target = (Grid.of(config.scaled(25)[0], chunks) for chunks in config.scaled(25))
    seeks, held = papers.SCALED_25[number]
    raw = Layout.raw("<f2", source), Layout.raw("<f2", target)
    assert counts(baseline(source, target), *raw)[0] == seeks
    assert source.count + target.count == config.lower_bound
    largest = Grid.of(shape.shape, [n // 25 for n in config.largest_read])
    assert held_elements(keep(largest, target)) == held


@pytest.mark.parametrize(("number", "config"), SMALL)
def test_table_4(number: int, config: Config) -> None:
    """The thesis' choice, the corrected one, the best one known, and what reaches the lower bound."""
    source, target = config.layouts()
    for known in (config.thesis, config.keep, config.best, *config.bound):
        assert known is not None
        made = known.sweep(config)
        assert counts(made, source, target)[0] == known.seeks
        assert held_elements(made) * ITEM_BYTES == known.held_bytes
    assert all(known.seeks == config.lower_bound for known in config.bound)
    for known in (config.thesis, config.keep, config.best):
        assert known is not None
        assert known.held_bytes <= FOUR_GB


@pytest.mark.parametrize(("load", "golden"), [*papers.CLUSTERED.items(), *papers.MULTIPLE.items()])
def test_split_of_a_contiguous_file(load: tuple[int, int, int], golden: int) -> None:
    shape = (16, 16, 16)
    file, blocks = Layout.raw("u1", Grid.whole(shape)), Layout.raw("u1", Grid.of(shape, (4, 4, 4)))
    loads = Grid.of(shape, load)
    made = Pass(loads, loads.refine(blocks.objects), loads, (0, 1, 2), Access.RUNS, Access.RUNS)
    reads = traffic(made.reads, file, Access.RUNS)
    writes = traffic(made.writes, blocks, Access.RUNS, writing=True)
    assert reads.runs + writes.opens == golden
    assert held_elements(made) == load[0] * load[1] * load[2]


def test_scaling_refuses_what_does_not_divide() -> None:
    with pytest.raises(ValueError, match="does not divide"):
        CONFIGS_3500[0].scaled(3)
