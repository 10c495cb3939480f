"""Text for people: aligned, narrow, the same every time, and true."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import reblock
from reblock.cost.estimate import Sweep
from reblock.engine.report import Report
from reblock.geometry import Grid
from reblock.model import Access, Cost, Device, Layout, Pass, Plan, Problem, Traffic
from reblock.planner import Alternative, Decision
from reblock.render import text
from reblock.render.columns import WIDTH, fields, plain, table

PROBLEMS: dict[str, dict[str, object]] = {
    "aligned": {"shape": (140, 140, 140), "dtype": "u2", "source_chunks": (35, 35, 35), "chunks": (35, 70, 35)},
    "no axes": {"shape": (), "dtype": "f4", "source_chunks": (), "chunks": ()},
    "one axis": {"shape": (1000,), "dtype": ">f8", "source_chunks": (7,), "chunks": (11,)},
    "irregular": {
        "shape": (100, 100),
        "dtype": "u1",
        "source_chunks": "3+30+67,3",
        "chunks": "20+30+22,7",
        "region": "10:90,5:77",
        "transpose": "1,0",
        "source_codec": "zstd:3",
        "strategy": "naive",
    },
    "several passes": {
        "shape": (2048, 512, 512),
        "dtype": "f4",
        "source_chunks": (1, 512, 512),
        "chunks": (2048, 32, 32),
        "source_codec": "zstd:3",
        "memory": "64MiB",
    },
    "a thousand million chunks": {
        "shape": (100_000,) * 3,
        "dtype": "f4",
        "source_chunks": (100,) * 3,
        "chunks": (100, 50, 100),
        "device": "hdd",
    },
}


def decide(**options: object) -> Decision:
    return reblock.plan(**options).decision  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("everything", [False, True])
def test_explain_is_narrow_plain_and_the_same_every_time(name: str, everything: bool) -> None:
    decision = decide(**PROBLEMS[name])
    shown = text.explain(decision, notes=("a note " * 30,), everything=everything)
    assert shown == text.explain(decide(**PROBLEMS[name]), notes=("a note " * 30,), everything=everything)
    for line in shown.splitlines():
        assert len(line) <= WIDTH, line
        assert line.isprintable()
        assert line == line.rstrip()


@pytest.mark.parametrize("name", PROBLEMS)
def test_explain_shows_every_strategy_with_its_price_or_the_reason(name: str) -> None:
    decision = decide(**PROBLEMS[name])
    shown = text.explain(decision)
    prices, _, reasons = shown.partition("strategies, best first")[2].partition("why not")
    for other in decision.alternatives:
        priced = re.search(rf"^  {other.strategy} ", prices, flags=re.MULTILINE)
        assert bool(priced) == (other.cost is not None)
        refused = re.search(rf"^  {other.strategy} ", reasons, flags=re.MULTILINE)
        assert bool(refused) == (other.rejected is not None)
    assert shown.count("R  read boxes") == len(decision.plan.passes)
    whole = text.explain(decision, everything=True)
    assert whole.startswith(shown)
    assert whole.count("R  read boxes") == sum(len(a.plan.passes) for a in decision.alternatives if a.plan)


def test_explain_by_heart() -> None:
    source = Layout.raw("u2", Grid.of((140, 140, 140), (35, 35, 35)))
    target = Layout.raw("u2", Grid.of((140, 140, 140), (35, 70, 35)))
    device = Device("tape", 1e9, 1e9, 0.0, 0.0, 0.0, 8)
    made = Pass(target.objects, target.objects, target.objects, (0, 1, 2), Access.RUNS, Access.UNITS)
    plan = Plan("naive", (140, 140, 140), (made,), depth=2)
    cost = Cost(96, 96, 96, 5488000, 5488000, 1.0, 0, 1029000, 171500, 0.25)
    sweep = Sweep(Traffic(64, 64, 64, 5488000), Traffic(32, 32, 32, 5488000), 171500, 1029000, 0.25, 0.25)
    alternatives = (
        Alternative("naive", plan, cost, None),
        Alternative("slow", plan, replace(cost, seconds=0.5, seeks=2368), "2 × the seconds of naive"),
        Alternative("never", None, None, "this strategy wants a budget that nobody has, " * 3),
    )
    problem = Problem(source, target, 1 << 30, device)
    decision = Decision(problem, plan, cost, (sweep,), "time", "exact", alternatives)
    assert text.explain(decision, notes=["float32 became float64"]) == BY_HEART


BY_HEART = """\
naive: 96 seeks, 1.00 × the lower bound; 10.5 MiB moved, 1005 KiB of memory, 250 ms

problem
  array        140 × 140 × 140 of uint16, 5.23 MiB
  source       64 chunks of 35,35,35, raw bytes
  target       32 chunks of 35,70,35, raw bytes
  memory       1.00 GiB, counting all that is allocated
  device       tape
  objective    time, search exact
  lower bound  96 seeks: 64 source objects + 32 target objects, each touched once

plan: naive, 1 pass, 2 units in flight
  R  read boxes   35,70,35  (32)
  W  write boxes  35,70,35  (32)
  T  tasks        35,70,35  (32)
  order           0,1,2
  steps           32 boxes of R ∪ T read, 32 boxes of W ∪ T written
  memory          1005 KiB (167 KiB held)
  time            250 ms
  side    access  opens  runs  seeks     bytes
  source  runs       64    64     64  5.23 MiB
  target  units      32    32     32  5.23 MiB

cost
  time           250 ms on tape
  seeks          96 = 1.00 × the lower bound of 96
  opens          96
  runs           96
  bytes read     5.23 MiB, amplification 1.00
  bytes written  5.23 MiB, amplification 1.00
  scratch        0 B
  peak memory    1005 KiB (167 KiB held)

strategies, best first
  strategy    time  seeks  × bound  opens      read   written      peak
  naive     250 ms     96     1.00     96  5.23 MiB  5.23 MiB  1005 KiB
  slow      500 ms  2,368    24.67     96  5.23 MiB  5.23 MiB  1005 KiB

why not
  slow   2 × the seconds of naive
  never  this strategy wants a budget that nobody has, this strategy wants a budget that nobody has,
         this strategy wants a budget that nobody has,

notes
  -  float32 became float64"""


def test_a_report_puts_measured_beside_predicted() -> None:
    decision = decide(**PROBLEMS["aligned"])
    cost = replace(decision.cost, seconds=2.0)
    measured = replace(cost, seconds=cost.seconds * 3, peak_bytes=0, scratch_bytes=5, seeks=2 * cost.seeks)
    report = Report(decision.plan, cost, measured, 1.5, 32, 33, 2, "y\n.zarr", 4, "sha256:0", ("a note",))
    shown = text.report(report, decision)
    assert shown.startswith("y .zarr: done in 1.5 s\n")
    for line in (
        "missing chunks  2, taken as the fill value",
        "resumed         4 write boxes already finished",
        "digest          sha256:0",
    ):
        assert f"\n  {line}\n" in shown
    rows = {m[1]: m[2] for m in re.finditer(r"^  (\S+(?: \S+)*)  .*  (\S.*)$", shown, flags=re.MULTILINE)}
    assert rows["opens"] == "equal"
    assert rows["seeks"] == "2.00 ×"
    assert rows["seconds"] == "3.00 ×"
    assert rows["peak memory"] == "0.00 ×"
    assert rows["scratch"] == "—"
    assert shown.endswith("notes\n  -  a note")
    # However short the run, the ratio is said.
    short = replace(report, predicted=replace(cost, seconds=0.003), measured=replace(measured, seconds=0.017))
    assert re.search(r"^  seconds .* 5\.67 ×$", text.report(short, decision), flags=re.MULTILINE)


def test_a_report_of_nothing_compares_nothing() -> None:
    decision = decide(**PROBLEMS["aligned"])
    zero = replace(decision.cost, opens=0, seeks=0, runs=0, bytes_read=0, bytes_written=0, seconds=0.0)
    report = Report(decision.plan, decision.cost, zero, 0.1, 0, 0, 0, "y.zarr", 33, "rb1-0", ("it was there",))
    shown = text.report(report, decision)
    assert shown.startswith("y.zarr: done, nothing was left to do\n")
    assert "predicted" not in shown
    assert shown.endswith("notes\n  -  it was there")


def test_info_and_verdict() -> None:
    described = {
        "format": "zarr",
        "shape": [10, 9],
        "dtype": ">u2",
        "chunks": [[3, 3, 4], 4],
        "shards": None,
        "order": [1, 0],
        "codec": "none",
        "fill_value": 0,
        "axes": ["time", "lat"],
        "attributes": {"units": "K", "long": "x" * 999, "list": [1, 2]},
    }
    shown = text.info(described, "a.zarr::t")
    assert shown.startswith("a.zarr::t\n  format      zarr\n")
    assert "  dtype       uint16 (>u2)\n" in shown
    assert "  size        90 elements, 180 B\n" in shown
    assert "  chunks      3+3+4,4 (9 chunks)\n" in shown
    assert "    list   [1, 2]" in shown
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert "shards      20,8" in text.info({**described, "chunks": [5, 4], "shards": [20, 8]}, "a")
    assert text.verdict("a", "b", {"equal": True, "differences": []}) == "equal: a and b hold the same elements"
    different = text.verdict("a", "b", {"equal": False, "differences": ["shape (1,) against (2,)"]})
    assert different.splitlines()[1] == "  shape (1,) against (2,)"
    first = {"index": [3, 4], "source": 1, "target": "NaN (0x7fc00001)"}
    found = {"equal": False, "differences": [], "differing_elements": 1234, "first_difference": first}
    assert text.verdict("a", "b", found).splitlines()[1:] == [
        "  1,234 elements differ",
        "  first at [3, 4] of the source: 1 there, NaN (0x7fc00001) in the target",
    ]


def test_numbers_for_people() -> None:
    assert [text.ratio_text(x) for x in (0, 1, 99.99, 100, 12345.6, 1.5e7)] == [
        "0.00",
        "1.00",
        "99.99",
        "100",
        "12,346",
        "1.50e07",
    ]
    assert [text.count_text(n) for n in (0, 999_999_999, 10**9)] == ["0", "999,999,999", "1.00e09"]


def test_columns() -> None:
    assert plain("a\tb\nc\x1b\udcff") == "a\\tb c\\x1b\\udcff"
    assert fields([("a", "1"), ("long", "")]) == ["  a     1", "  long"]
    assert fields([]) == []
    assert fields([("a", "word " * 30)])[1].startswith("     word")
    assert table(("", "n"), [["x", "10"], ["yy", "5"]]) == ["       n", "  x   10", "  yy   5"]
