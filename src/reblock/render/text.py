"""Text: plans, costs and reports for a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from reblock.cost.estimate import Sweep, estimate_passes
from reblock.engine import Report, Times
from reblock.geometry import Grid
from reblock.geometry.axis import Axis
from reblock.geometry.grid import chunk_text
from reblock.model import Cost, Layout, Pass, Plan, Problem, Traffic
from reblock.planner import Decision
from reblock.render.columns import WIDTH, clip, fields, plain, table
from reblock.units import format_count, format_seconds, format_size

#: The most attributes that `info` lists.
MANY_ATTRIBUTES = 20


def explain(decision: Decision, *, notes: Sequence[str] = (), everything: bool = False) -> str:
    """The chosen plan, its cost, and the rejected alternatives; `everything` also shows the passes of these."""
    problem = decision.problem
    lines = [
        headline(decision),
        "",
        "problem",
        *fields(_problem_fields(decision)),
        "",
        *_plan_lines(decision.plan, decision.sweeps, "plan"),
        "",
        "cost",
        *fields(_cost_fields(decision.cost, problem)),
        "",
        *_price_list(decision),
    ]
    reasons = [(clip(plain(a.strategy), 16), a.rejected) for a in decision.alternatives if a.rejected is not None]
    if reasons:
        lines += ["", "why not", *fields(reasons)]
    if everything:
        for other in decision.alternatives[1:]:
            if other.plan is not None:
                lines += ["", *_plan_lines(other.plan, estimate_passes(other.plan, problem), "alternative")]
    return "\n".join([*lines, *note_lines(notes)])


def brief(decision: Decision) -> str:
    """The chosen plan in one line, and the price list of all strategies."""
    return "\n".join([headline(decision), "", *_price_list(decision)])


def report(report: Report, decision: Decision) -> str:
    """The measured cost of a run beside the predicted cost."""
    where = f"{plain(report.target)}: " if report.target else ""
    pairs = [
        ("strategy", f"{report.plan.strategy}, {plural(len(report.plan.passes), 'pass', 'passes')}"),
        ("work", f"{plural(report.tasks, 'task')}, {plural(report.write_boxes, 'write box', 'write boxes')}"),
        ("missing chunks", _missing(report.missing_chunks)),
        ("memory budget", format_size(decision.problem.memory_bytes)),
    ]
    if report.resumed_boxes:
        pairs.append(("resumed", f"{plural(report.resumed_boxes, 'write box', 'write boxes')} already finished"))
    if report.digest:
        pairs.append(("digest", report.digest))
    if not report.write_boxes and report.resumed_boxes:
        # The run found everything finished, so there is no cost to compare.
        return "\n".join([f"{where}done, nothing was left to do", *fields(pairs), *note_lines(report.notes)])
    pairs.append(("time went to", times_text(report.times)))
    lines = [f"{where}done in {format_seconds(report.elapsed_seconds)}", *fields(pairs), "", "cost"]
    lines += table(("", "predicted", "measured", "measured / predicted"), comparison(report.predicted, report.measured))
    return "\n".join([*lines, *note_lines(report.notes)])


def times_text(times: Times) -> str:
    """Where the time went, longest first; negligible times are omitted."""
    spent = sorted(times.to_json().items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent if seconds >= 0.0005) or "nothing"


def info(described: Mapping[str, Any], location: str) -> str:
    """Layout and metadata of a stored array, from the result of `reblock.info`."""
    shape, chunks = described["shape"], described["chunks"]
    cuts = [tuple(cut) if isinstance(cut, list) else cut for cut in chunks]
    axes, dtype = described["axes"], np.dtype(described["dtype"])
    count = prod(shape)
    pairs = [
        ("format", str(described["format"])),
        ("shape", _shape(shape)),
        ("axes", ",".join(axes) if axes else "not named"),
        ("dtype", f"{dtype.name} ({dtype.str})"),
        ("size", f"{plural(count, 'element')}, {format_size(count * dtype.itemsize)}"),
        ("chunks", f"{chunk_text(cuts)} ({plural(Grid.of(shape, cuts).count, 'chunk')})"),
    ]
    if described["shards"]:
        pairs.append(("shards", chunk_text(described["shards"])))
    pairs += [
        ("axis order", _order(described["order"])),
        ("codec", str(described["codec"])),
        ("fill value", _value(described["fill_value"])),
    ]
    if described.get("disks"):
        pairs.append(("disks", ", ".join(map(plain, described["disks"]))))
    if described.get("digest"):
        pairs.append(("digest", described["digest"]))
    pairs.append(("attributes", format_count(len(described["attributes"]))))
    attributes = list(described["attributes"].items())
    shown = [(clip(plain(str(key)), 40), clip(_value(value), 200)) for key, value in attributes[:MANY_ATTRIBUTES]]
    if len(attributes) > len(shown):
        shown.append(("…", f"{format_count(len(attributes) - len(shown))} more: --json shows all"))
    return "\n".join([plain(location), *fields(pairs), *fields(shown, indent=4)])


def verdict(source: str, target: str, found: Mapping[str, Any]) -> str:
    """Whether two arrays hold the same elements, and the first differences, from the result of `reblock.verify`."""
    if found["equal"]:
        lines = [f"equal: {source} and {target} hold the same elements"]
    else:
        lines = [f"different: {source} and {target} do not hold the same elements"]
    if count := found.get("differing_elements"):
        verb = "differs" if count == 1 else "differ"
        lines.append(f"  {plural(count, 'element')} {verb}")
    if first := found.get("first_difference"):
        place = ", ".join(map(str, first["index"]))
        values = [clip(plain(str(first[side])), 40) for side in ("source", "target")]
        lines.append(f"  first at [{place}] of the source: {values[0]} there, {values[1]} in the target")
    return "\n".join([*map(plain, lines), *(f"  {plain(difference)}" for difference in found["differences"])])


# ---------------------------------------------------------------- the problem
def _problem_fields(decision: Decision) -> list[tuple[str, str]]:
    problem = decision.problem
    kinds = " → ".join(dict.fromkeys(str(side.dtype) for side in (problem.source, problem.target)))
    counted = "elements held" if problem.held else "all that is allocated"
    pairs = [
        ("array", f"{_shape(problem.shape)} of {kinds}, {format_size(problem.target.nbytes)}"),
        ("source", layout_text(problem.source)),
        ("target", layout_text(problem.target)),
        ("memory", f"{format_size(problem.memory_bytes)}, counting {counted}"),
        ("device", _devices(problem)),
    ]
    if problem.scratch_bytes is not None:
        pairs.append(("scratch", f"at most {format_size(problem.scratch_bytes)}"))
    if problem.scratch_objects is not None:
        pairs.append(("scratch", f"at most {plural(problem.scratch_objects, 'chunk')}"))
    sides = (("source", problem.source), ("target", problem.target))
    bound = " + ".join(plural(layout.objects.count, f"{side} object") for side, layout in sides)
    return [
        *pairs,
        ("objective", f"{decision.objective}, search {decision.search}"),
        ("lower bound", f"{plural(problem.lower_bound_seeks, 'seek')}: {bound}, each touched once"),
    ]


def _devices(problem: Problem, *, brief: bool = False) -> str:
    """Names of the devices; in brief without what is known of them."""
    names = [plain(one.name.partition(": ")[0] if brief else one.name) for one in problem.devices]
    if len(set(names)) == 1:
        return names[0]
    return ", ".join(f"{side} {name}" for side, name in zip(("source", "scratch", "target"), names, strict=True))


def layout_text(layout: Layout) -> str:
    """A layout in a few words."""
    parts = []
    if layout.files:
        parts.append(f"{plural(layout.files.count, 'shard')} of {grid_text(layout.files)}")
    chunks = layout.objects if layout.divided else layout.units
    parts.append(f"{plural(chunks.count, 'chunk')} of {grid_text(chunks)}")
    if layout.divided:
        parts.append(f"read in {plural(layout.units.count, 'part')} of {grid_text(layout.units)}")
    parts.append(layout.codec or "raw bytes")
    if layout.order != tuple(range(layout.ndim)):
        parts.append(f"axes on disk {_order(layout.order)}")
    return ", ".join(parts)


def grid_text(grid: Grid) -> str:
    """A grid's chunks in the notation of the command line; irregular long axes as count and largest block."""
    return ",".join(map(_axis_text, grid.axes)) or "()"


def _axis_text(axis: Axis) -> str:
    if axis.step is not None or not axis.count:
        return str(axis.step or 0)
    return "+".join(map(str, axis.lengths())) if axis.count <= 8 else f"({format_count(axis.count)} of ≤{axis.largest})"


# ---------------------------------------------------------------- plans
def _plan_lines(plan: Plan, sweeps: Sequence[Sweep], title: str) -> list[str]:
    depth = f"{plural(plan.depth, 'unit')} in flight"
    lines = [f"{title}: {plain(plan.strategy)}, {plural(len(plan.passes), 'pass', 'passes')}, {depth}"]
    if plan.interleaved:
        lines[0] += ", passes alternate task by task"
    if len(plan.passes) == 1:
        return [*lines, *_pass_lines(plan.passes[0], sweeps[0], indent=2)]
    kinds = plan.along("", "scratch", "target's space")[1:-1]
    ends = [f"{kind} of {layout_text(layout)}" for kind, layout in zip(kinds, plan.scratch, strict=True)]
    ends = ["source", *ends, "target"]
    for number, (made, sweep) in enumerate(zip(plan.passes, sweeps, strict=True)):
        lines += fields([(f"pass {number + 1}", f"{ends[number]} → {ends[number + 1]}")])
        lines += _pass_lines(made, sweep, indent=4)
    return lines


def _pass_lines(made: Pass, sweep: Sweep, *, indent: int) -> list[str]:
    pairs = [
        ("R  read boxes", _boxes(made.read)),
        ("W  write boxes", _boxes(made.write)),
        ("T  tasks", _boxes(made.tasks)),
        ("order", _order(made.order)),
        ("steps", f"{_boxes_count(made.reads)} of R ∪ T read, {_boxes_count(made.writes)} of W ∪ T written"),
        ("memory", f"{format_size(sweep.peak_bytes)} ({format_size(sweep.held_bytes)} held)"),
        ("time", format_seconds(sweep.seconds)),
    ]
    sides = [
        _side("source", str(made.read_access), sweep.source),
        _side("target", str(made.write_access), sweep.target),
    ]
    header = ("side", "access", "opens", "runs", "seeks", "bytes")
    return [*fields(pairs, indent=indent), *table(header, sides, words=2, indent=indent)]


def _boxes(grid: Grid) -> str:
    if grid.count == 1:
        return f"{grid_text(grid)}  (the whole array)"
    return f"{grid_text(grid)}  ({format_count(grid.count)})"


def _boxes_count(grid: Grid) -> str:
    return plural(grid.count, "box", "boxes")


def _side(name: str, access: str, traffic: Traffic) -> list[str]:
    counts = (traffic.opens, traffic.runs, traffic.seeks)
    return [name, access, *(count_text(count) for count in counts), format_size(traffic.bytes)]


def _cost_fields(cost: Cost, problem: Problem) -> list[tuple[str, str]]:
    bound = problem.lower_bound_seeks
    return [
        ("time", f"{format_seconds(cost.seconds)} on {_devices(problem, brief=True)}"),
        ("seeks", f"{format_count(cost.seeks)} = {_times(cost.seeks, bound)} the lower bound of {format_count(bound)}"),
        ("opens", format_count(cost.opens)),
        ("runs", format_count(cost.runs)),
        ("bytes read", f"{format_size(cost.bytes_read)}, amplification {ratio_text(cost.read_amplification)}"),
        ("bytes written", f"{format_size(cost.bytes_written)}, amplification {ratio_text(cost.write_amplification)}"),
        ("scratch", format_size(cost.scratch_bytes)),
        ("peak memory", f"{format_size(cost.peak_bytes)} ({format_size(cost.held_bytes)} held)"),
    ]


def headline(decision: Decision) -> str:
    """The chosen plan in one line, or two if its numbers are very long."""
    cost = decision.cost
    seeks = (
        f"{plain(decision.plan.strategy)}: {plural(cost.seeks, 'seek')}, "
        f"{_times(cost.seeks, decision.problem.lower_bound_seeks)} the lower bound;"
    )
    rest = (
        f"{format_size(cost.bytes_read + cost.bytes_written)} moved, {format_size(cost.peak_bytes)} of memory, "
        f"{format_seconds(cost.seconds)}"
    )
    return f"{seeks} {rest}" if len(seeks) + 1 + len(rest) <= WIDTH else f"{seeks}\n  {rest}"


def _price_list(decision: Decision) -> list[str]:
    bound = decision.problem.lower_bound_seeks
    rows = [
        [clip(plain(other.strategy), 16), *_prices(other.cost, bound)]
        for other in decision.alternatives
        if other.cost is not None
    ]
    header = ("strategy", "time", "seeks", "× bound", "opens", "read", "written", "peak")
    return ["strategies, best first", *table(header, rows)]


def _prices(cost: Cost, bound: int) -> list[str]:
    return [
        format_seconds(cost.seconds),
        count_text(cost.seeks),
        ratio_text(cost.seeks / bound) if bound else "—",
        count_text(cost.opens),
        format_size(cost.bytes_read),
        format_size(cost.bytes_written),
        format_size(cost.peak_bytes),
    ]


# ---------------------------------------------------------------- words
def note_lines(notes: Sequence[str]) -> list[str]:
    """Lines for notes."""
    return ["", "notes", *fields([("-", note) for note in notes])] if notes else []


def _times(number: int, bound: int) -> str:
    return f"{ratio_text(number / bound)} ×" if bound else "as many as"


def ratio_text(ratio: float) -> str:
    """A ratio as text."""
    if ratio < 99.995:
        return f"{ratio:.2f}"
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.2e}".replace("e+", "e")


def count_text(count: int) -> str:
    """A count that fits a column; large counts are rounded."""
    return format_count(count) if count < 10**9 else f"{count:.2e}".replace("e+", "e")


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count and its noun."""
    return f"{format_count(count)} {one if count == 1 else many or one + 's'}"


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "() (one element)"


def _order(order: Sequence[int]) -> str:
    return ",".join(map(str, order)) or "()"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- reports
def comparison(predicted: Cost, measured: Cost) -> list[list[str]]:
    """Rows of a table: predicted, measured, and their ratio."""
    rows = []
    for key, name, way in _COMPARED:
        expected, found = getattr(predicted, key), getattr(measured, key)
        rows.append([name, way(expected), way(found), _compared(expected, found)])
    return rows


def _compared(expected: float, found: float) -> str:
    if expected == found:
        return "equal"
    return f"{ratio_text(found / expected)} ×" if expected else "—"


_COMPARED: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("opens", "opens", count_text),
    ("seeks", "seeks", count_text),
    ("runs", "runs", count_text),
    ("bytes_read", "bytes read", format_size),
    ("bytes_written", "bytes written", format_size),
    ("read_amplification", "read amplification", ratio_text),
    ("write_amplification", "write amplification", ratio_text),
    ("scratch_bytes", "scratch", format_size),
    ("peak_bytes", "peak memory", format_size),
    ("held_bytes", "held", format_size),
    ("seconds", "seconds", format_seconds),
)


def _missing(count: int) -> str:
    return f"{format_count(count)}, taken as the fill value" if count else "0"
