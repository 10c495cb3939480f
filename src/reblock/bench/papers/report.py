"""The tables of `reblock bench papers`: by arithmetic, and run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from reblock.bench.notify import Notify, silent
from reblock.bench.papers.arrays import Cancelled, never
from reblock.bench.papers.cases import run_cases
from reblock.bench.papers.dask_io_run import check_dask_io, has_dask, run_dask_io
from reblock.bench.papers.dra import dra_tables
from reblock.bench.papers.dra_run import run_dra, scaled_side
from reblock.bench.papers.figures import CLUSTERED, CONFIGS_3500, CONFIGS_8000, MULTIPLE, SIZES_3500, SIZES_8000
from reblock.bench.papers.sarawagi import sarawagi_tables
from reblock.bench.papers.sarawagi_run import check_scale as check_sarawagi_scale
from reblock.bench.papers.sarawagi_run import run_sarawagi
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
from reblock.bench.papers.thesis_run import REPEATS, check_scale, run_thesis
from reblock.cost import traffic
from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.model import Device, Layout, Pass, Problem
from reblock.planner import choose
from reblock.render.tables import Column, Table, shape, yes_no
from reblock.units import format_count, parse_size

#: Papers that can be selected.
PAPERS = ("thesis", "drafts", "dra", "sarawagi", "dask-io")
#: Papers whose experiments run whenever they are named; the last has no other tables.
ALWAYS_RUN = ("sarawagi", "dask-io")
#: The thesis' budgets; it used only the last for the large array.
DEFAULT_BUDGETS = "4GB,8GB,256GB"
_LARGE_BUDGET = 256 * 10**9
#: Divisor of lengths in runs, and number of random cases.
DEFAULT_SCALE, DEFAULT_CASES = 5, 1000


def parse_budgets(text: str | Sequence[int]) -> tuple[int, ...]:
    """Parse budgets like `4GB,8GB`."""
    parts = text.split(",") if isinstance(text, str) else list(text)
    budgets = tuple(dict.fromkeys(parse_size(part) for part in parts))
    if not budgets or not all(budgets):
        raise UsageError(f"memory budgets are sizes like {DEFAULT_BUDGETS}, not {text!r}")
    return budgets


def check_papers(papers: Sequence[str]) -> tuple[str, ...]:
    """The papers named, in the order of PAPERS; all without names."""
    for name in papers:
        if name not in PAPERS:
            raise UsageError(f"there is no paper {name!r}: choose among {', '.join(PAPERS)}")
    return tuple(name for name in PAPERS if not papers or name in papers)


def reproduce(
    papers: Sequence[str] = (),
    *,
    memory: str | Sequence[int] = DEFAULT_BUDGETS,
    device: Device | None = None,
    notify: Notify = silent,
) -> list[Table]:
    """Every table of the papers that arithmetic can reproduce, at full size."""
    budgets = parse_budgets(memory)
    tables: list[Table] = []
    for paper in check_papers(papers):
        if paper == "thesis":
            tables += _thesis(budgets, device or DEVICE, notify)
        elif paper == "drafts":
            notify("drafts: clustered and multiple")
            tables += [clustered(), multiple()]
        elif paper == "dra":
            notify("DRA: Tables 2 to 4")
            tables += dra_tables(device)
        elif paper == "sarawagi":
            notify("Sarawagi: Figures 3 to 5")
            tables += sarawagi_tables()
    return tables


def _thesis(budgets: Sequence[int], device: Device, notify: Notify) -> list[Table]:
    notify("thesis: Table 3")
    tables = [table_3("table3", CONFIGS_3500, SIZES_3500), table_3("table3_large", CONFIGS_8000, SIZES_8000)]
    notify("thesis: Table 4 and Fig. 5")
    cells = [Cell(place, config, budget, device) for place, config in enumerate(CONFIGS_3500) for budget in budgets]
    tables += [table_4(cells), table_4_seeks(cells), figure_5(cells), figure_5_time(cells)]
    notify("thesis: the large array")
    large = [Cell(place, config, _LARGE_BUDGET, device) for place, config in enumerate(CONFIGS_8000)]
    return [*tables, large_array(large)]


def check_run(papers: Sequence[str], scale: int, cases: int, repeats: int) -> None:
    """Refuse impossible options before any work."""
    wanted = check_papers(papers)
    if "thesis" in wanted:
        check_scale(scale)
    if "dra" in wanted:
        scaled_side(scale)
    if "sarawagi" in wanted:
        check_sarawagi_scale(scale)
    if "dask-io" in papers:
        check_dask_io(scale)
    if cases < 0:
        raise UsageError(f"the number of cases must be at least 0, not {cases}")
    if repeats < 1:
        raise UsageError(f"the number of runs must be at least 1, not {repeats}")


def execute(
    papers: Sequence[str] = (),
    *,
    memory: str | Sequence[int] = DEFAULT_BUDGETS,
    scale: int = DEFAULT_SCALE,
    cases: int = DEFAULT_CASES,
    repeats: int = REPEATS,
    folder: str,
    device: Device | None = None,
    notify: Notify = silent,
    cancelled: Cancelled = never,
) -> list[Table]:
    """The papers' experiments on this machine: the thesis' configurations and random cases, accesses of the others.

    Files are made in `folder` and removed again, also after an interruption. The drafts' examples are not run. Without
    dask, the experiments on Dask IO are left out unless they are named.
    """
    check_run(papers, scale, cases, repeats)
    wanted = check_papers(papers)
    tables: list[Table] = []
    if "thesis" in wanted:
        tables += run_thesis(
            CONFIGS_3500,
            parse_budgets(memory),
            scale=scale,
            folder=folder,
            repeats=repeats,
            device=device,
            notify=notify,
            cancelled=cancelled,
        )
        if cases:
            tables.append(run_cases(cases, folder=folder, notify=notify, cancelled=cancelled))
    if "dra" in wanted:
        tables += run_dra(scale=scale, folder=folder, device=device, notify=notify, cancelled=cancelled)
    if "sarawagi" in wanted:
        tables += run_sarawagi(scale=scale, folder=folder, device=device, notify=notify, cancelled=cancelled)
    if "dask-io" in wanted and (papers or has_dask()):
        tables += run_dask_io(scale=scale, folder=folder, repeats=repeats, notify=notify, cancelled=cancelled)
    return tables


# ---------------------------------------------------------------- the drafts' small examples
def _split(strategy: str, memory_elements: int) -> tuple[Pass, Problem]:
    """The pass that splits 16³ into blocks of 4³ with a memory of `memory_elements`."""
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
    """The clustered split: block openings and runs in the big file."""
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
    """The multiple split: loads and the blocks that each load touches."""
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
