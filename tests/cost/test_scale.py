"""Arrays of 10⁹ and 10¹² chunks are priced in a second and 200 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from math import prod

import pytest

import oracle
from reblock.cost import held_elements, traffic
from reblock.geometry import Grid
from reblock.model import Access, Layout, Pass, Traffic

#: Prices four passes in a process of its own and prints CPU seconds and megabytes.
PROGRAM = """
import json, re, sys, time
from reblock.cost import PRESETS, estimate
from reblock.geometry import Grid
from reblock.model import Layout, Pass, Plan, Problem

shape, source, target = json.loads(sys.argv[1])
began = time.process_time()
I, O = Grid.of(shape, source, padded=True), Grid.of(shape, target, padded=True)
problem = Problem(Layout.raw("u2", I), Layout.raw("u2", O), 1 << 30, PRESETS["nvme"])
A, order = Grid.whole(shape), tuple(range(len(shape)))
largest = Grid.of(shape, [i * -(-o // i) for i, o in zip(source, target)])
passes = {
    "naive": Pass(O, O, O, order, "runs", "units"),
    "baseline": Pass(I, I.refine(O), I, order, "runs", "runs"),
    "keep": Pass(largest, O, A, order[::-1], "runs", "units"),
    "tasks": Pass(I, O, O.refine(largest), order, "runs", "runs"),
}
costs = {name: estimate(Plan(name, tuple(shape), (made,)), problem).to_json() for name, made in passes.items()}
text = json.dumps([Plan(name, tuple(shape), (made,)).to_json() for name, made in passes.items()])
print(json.dumps({
    "seconds": time.process_time() - began,
    "megabytes": int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024,
    "plan": len(text),
    "costs": costs,
}))
"""


@pytest.mark.parametrize(
    ("shape", "source", "target"),
    [
        ((100_000,) * 3, (100,) * 3, (150,) * 3),
        ((1_000_003,) * 3, (100, 101, 99), (64, 130, 77)),
        ((10**12,), (1000,), (1500,)),
        ((10**12,), (10**12,), (1000,)),
        ((10**13,), (10,), (10**13,)),
        ((10**6, 10**6), (1, 1), (7, 5)),
        ((10**9, 1000, 1000), (1000, 10, 100), (10, 1000, 10)),
    ],
    ids=["1e9", "1e12", "line", "from-one-file", "to-one-file", "elements", "uneven"],
)
def test_price(shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([shape, source, target])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    chunks = max(Grid.of(shape, source).count, Grid.of(shape, target).count)
    assert chunks >= 10**9
    assert seen["seconds"] < 1, "CPU seconds for four plans"
    assert seen["megabytes"] < 200
    assert seen["plan"] < 4 * 10_000
    blocks = Grid.of(shape, target).count
    assert seen["costs"]["naive"]["opens"] >= blocks
    assert seen["costs"]["baseline"]["bytes_read"] == prod(shape) * 2


def test_small_multiples_scale_exactly() -> None:
    """An axis of k joint periods costs k times one: the long answer follows from a short one."""
    unit, repeats = 1050, 10**6
    short, long = (unit,) * 2, (unit * repeats, unit)
    for chunk, other in (((150, 210), (350, 30)), ((7, 1050), (1050, 7))):
        sides = []
        for shape in (short, long):
            I, O = Grid.of(shape, chunk), Grid.of(shape, other)
            sides.append(traffic(I, Layout.raw("u1", O), Access.RUNS))
        assert Traffic(*(n * repeats for n in _tuple(sides[0]))) == sides[1]


def _tuple(side: Traffic) -> tuple[int, int, int, int]:
    return side.opens, side.runs, side.seeks, side.bytes


def test_held_of_a_long_axis_does_not_depend_on_its_length() -> None:
    held = {held_elements(_sweep(count)) for count in (3, 10, 10**6)}
    assert held == {oracle.sweep(_sweep(2)).held}


def _sweep(count: int) -> Pass:
    shape = (210 * count, 40, 50)
    read, write = Grid.of(shape, (70, 8, 50)), Grid.of(shape, (30, 40, 15))
    return Pass(read, write, Grid.whole(shape), (0, 1, 2), Access.RUNS, Access.RUNS)
