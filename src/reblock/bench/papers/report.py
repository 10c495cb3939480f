"""`reblock bench papers`: every table of the papers again, their figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from reblock.bench.notify import Notify, silent
from reblock.bench.papers.cases import run_cases
from reblock.bench.papers.dra import dra_tables
from reblock.bench.papers.figures import CLUSTERED, CONFIGS_3500, CONFIGS_8000, MULTIPLE, SIZES_3500, SIZES_8000
from reblock.bench.papers.runs import check_run, run_configs
from reblock.bench.papers.thesis import (
    DEVICE,
    Cell,
    figure_5,
    figure_5_time,
    large_array,
    table_3,
    table_4,
    table_4_seeks,
)
from reblock.cost import traffic
from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.model import Layout, Pass, Problem
from reblock.planner import choose
from reblock.render.tables import Column, Table, shape, yes_no
from reblock.units import format_count, parse_size

__all__ = ["DEFAULT_BUDGETS", "check_run", "execute", "parse_budgets", "reproduce"]

#: The thesis' budgets; the large array had only the last.
DEFAULT_BUDGETS = "4GB,8GB,256GB"
_LARGE_BUDGET = 256 * 10**9


def parse_budgets(text: str | Sequence[int]) -> tuple[int, ...]:
    """Budgets from text like `4GB,8GB`."""
    parts = text.split(",") if isinstance(text, str) else list(text)
    budgets = tuple(dict.fromkeys(parse_size(part) for part in parts))
    if not budgets or not all(budgets):
        raise UsageError(f"memory budgets are sizes like {DEFAULT_BUDGETS}, not {text!r}")
    return budgets


def reproduce(*, memory: str | Sequence[int] = DEFAULT_BUDGETS, notify: Notify = silent) -> list[Table]:
    """Every table of the papers that arithmetic can reproduce, at full size."""
    budgets = parse_budgets(memory)
    notify("thesis: Table 3")
    tables = [table_3("table3", CONFIGS_3500, SIZES_3500), table_3("table3_large", CONFIGS_8000, SIZES_8000)]
    notify("thesis: Table 4 and Fig. 5")
    cells = [Cell(place, config, budget) for place, config in enumerate(CONFIGS_3500) for budget in budgets]
    tables += [table_4(cells), table_4_seeks(cells), figure_5(cells), figure_5_time(cells)]
    notify("thesis: the large array")
    tables.append(large_array([Cell(place, config, _LARGE_BUDGET) for place, config in enumerate(CONFIGS_8000)]))
    notify("drafts: clustered and multiple")
    tables += [clustered(), multiple()]
    notify("DRA: Tables 2 to 4")
    return tables + dra_tables()


def execute(
    *, memory: str | Sequence[int] = DEFAULT_BUDGETS, scale: int = 25, cases: int = 1000, notify: Notify = silent
) -> list[Table]:
    """The thesis' experiments on this machine's disk: its configurations at a scale, its validation of the model."""
    tables = [run_configs(CONFIGS_3500, parse_budgets(memory), scale=scale, notify=notify)]
    if cases:
        tables.append(run_cases(cases, notify=notify))
    return tables


# ---------------------------------------------------------------- the drafts' small examples
def _split(strategy: str, memory_elements: int) -> tuple[Pass, Problem]:
    """The pass that splits 16³ into blocks of 4³ with a memory of so many elements."""
    layouts = [Layout.raw("u1", Grid.of((16,) * 3, chunks)) for chunks in ((16,) * 3, (4,) * 3)]
    problem = Problem(layouts[0], layouts[1], memory_elements, DEVICE, held=True)
    (made,) = choose(problem, strategy=strategy).plan.passes
    return made, problem


_SMALL = (
    Column("memory_elements", "elements", format_count),
    Column("load", "load", shape),
    Column("paper", "paper", format_count),
    Column("ours", "ours", format_count),
    Column("same", "same", yes_no),
)


def clustered() -> Table:
    """Block openings and runs in the big file."""
    rows = []
    for load, paper in CLUSTERED.items():
        made, problem = _split("clustered", prod(load))
        reads = traffic(made.reads, problem.source, made.read_access)
        writes = traffic(made.writes, problem.target, made.write_access, writing=True)
        ours = reads.runs + writes.opens
        rows.append((prod(load), made.read.largest, paper, ours, paper == ours))
    return Table(
        "clustered",
        "Drafts, clustered split of 16³ into 4³: block openings + contiguous runs in the big file",
        _SMALL,
        tuple(rows),
        failures=sum(not row[-1] for row in rows),
    )


def multiple() -> Table:
    """Loads and the blocks that each touches."""
    rows = []
    for load, paper in sorted(MULTIPLE.items(), key=lambda one: prod(one[0])):
        made, problem = _split("multiple", prod(load))
        writes = traffic(made.writes, problem.target, made.write_access, writing=True)
        ours = made.reads.count + writes.opens
        rows.append((prod(load), made.read.largest, paper, ours, paper == ours))
    return Table(
        "multiple",
        "Drafts, multiple split of 16³ into 4³: loads + blocks that each load touches",
        _SMALL,
        tuple(rows),
        (
            "Loads are boxes. The papers' loads also stop inside a row, which costs 598 with 48 elements and 278 with "
            "192, where boxes cost 608 and 288.",
        ),
        failures=sum(not row[-1] for row in rows),
    )
