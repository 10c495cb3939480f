"""`reblock simulate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

SHAPES = (
    "--shape",
    "4000,4000",
    "--dtype",
    "f4",
    "--source-chunks",
    "1,4000",
    "--chunks",
    "500,500",
    "--codec",
    "zstd",
)


def test_a_plan_of_shapes_is_saved_and_simulated(call: Callable[..., Any], ask: Callable[..., Any], here: Path) -> None:
    planned = ask("plan", *SHAPES, "--device", "s3", "--save", "my plan.json")
    assert "saved: reblock simulate 'my plan.json'" in planned["notes"]
    found = ask("simulate", "my plan.json", "--workers", "8", "--device", "s3")
    assert found["requests"]["puts"] == 64
    assert found["scenario"]["workers"] == 8
    assert found["scenario"]["prices"]["put_per_thousand"] == 0.005
    assert found == ask("simulate", "my plan.json", "--workers", "8", "--device", "s3")
    done = call("simulate", "my plan.json", "--workers", "8")
    assert done.exit_code == 0
    for words in ("on 8 workers of s3", "per second", "price", "$0.005 per 1,000 PUT", "5,500 GET, 3,500 PUT"):
        assert words in done.stdout


def test_failures_and_hot_spots_are_shown(call: Callable[..., Any], ask: Callable[..., Any], here: Path) -> None:
    ask("plan", *SHAPES, "--device", "s3", "--save", "p.json")
    done = call("simulate", "p.json", "--workers", "9", "--failure-rate", "1", "--retries", "2", "--startup", "3")
    assert "stops after" in done.stdout
    assert "more than 2 times" in done.stdout
    done = call("simulate", "p.json", "--workers", "9", "--puts-per-second", "2", "--bandwidth", "1GB")
    assert "hot spots    target: " in done.stdout
    assert "GiB per second" in done.stdout or "MiB per second" in done.stdout
    noisy = [ask("simulate", "p.json", "--workers", "9", "--stragglers", "pareto:2", "--seed", seed) for seed in "112"]
    assert noisy[0] == noisy[1] != noisy[2]


def test_mistakes_are_errors_in_one_line(call: Callable[..., Any], ask: Callable[..., Any], here: Path) -> None:
    ask("plan", *SHAPES, "--save", "p.json")
    (here / "x.npy").write_bytes(b"\x93NUMPY")
    for words, says in (
        (("nowhere.json",), "nowhere.json"),
        (("x.npy",), "x.npy is not a plan file: not valid JSON"),
        (("p.json", "--workers", "0"), "--workers 0: use 1 to 100,000 workers"),
        (("p.json", "--stragglers", "x"), "--stragglers x: use none, lognormal:SIGMA"),
        (("p.json", "--device", "cloud"), "unknown device"),
    ):
        done = call("simulate", *words)
        assert done.exit_code == 1, done.output
        assert says in done.stderr
        assert done.stdout == ""
    assert call("simulate", "p.json", "--workers", "many").exit_code == 2
