"""`reblock advise` in words: what it prints, its JSON, and one line for each mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import reblock

Call = Callable[..., Result]
PAPER = ("--shape", "100,2000,8000", "--dtype", "u1", "--block-size", "8000", "--objective", "blocks")


@pytest.fixture
def pattern(here: Path) -> Path:
    path = here / "reads.txt"
    path.write_text("2\n10 400 10 1\n20 5 400 1\n")
    return path


def test_the_papers_example(ask: Callable[..., Any], pattern: Path) -> None:
    found = ask("advise", *PAPER, "--access", pattern)
    assert (found["best"]["chunks"], found["best"]["blocks"]) == ([20, 20, 20], 20)
    assert found["chunk_order"] == found["order"] == [0, 2, 1]
    assert {one["method"]: one["blocks"] for one in found["candidates"]}["linear"] == 2050
    anywhere = ask("advise", *PAPER, "--access", pattern, "--model", "anywhere")
    assert anywhere["best"]["chunks"] == [11, 22, 33]


def test_what_is_printed(call: Call, pattern: Path) -> None:
    text = call("advise", *PAPER, "--access", pattern).stdout
    assert text.startswith("an array of 100,2000,8000: chunks 20,20,20: 20 blocks")
    rows = [line.split() for line in text.splitlines()]
    assert any(row[:2] == ["exhaustive", "←"] and row[2] == "20,20,20" for row in rows)
    longest = [line for line in text.splitlines() if "█" * 24 in line]
    assert [line.split()[0] for line in longest] == ["linear"]
    assert text.splitlines()[-1] == "reblock run SRC array-chunked.zarr --chunks 20,20,20"


def test_from_a_log_to_the_command(call: Call, ask: Callable[..., Any], sample: Any) -> None:
    reblock.repartition("x.npy", "x.zarr", chunks=(1, 30))
    array = reblock.open("x.zarr", log="access.jsonl")
    for column in range(30):
        array[:, column]
    text = call("advise", "x.zarr", "--log", "access.jsonl", "--block-size", "16:160").stdout
    assert "these classes explain 100% of 30 accesses in the log" in text
    assert "pays back" in text
    command = text.splitlines()[-1].split()
    assert call(*command[1:]).exit_code == 0
    assert ask("info", "x-chunked.zarr")["chunks"] == [20, 1]
    again = ask("advise", "x-chunked.zarr", "--log", "access.jsonl", "--block-size", "16:160")
    assert again["candidates"][0]["blocks"] == 1
    assert again["conversion"]["break_even_reads"] is None


def test_plan_and_run_take_accesses(call: Call, ask: Callable[..., Any], sample: Any) -> None:
    found = ask("plan", "x.npy", "y.zarr", "--chunks", "auto,7", "--access", "slices:0")
    assert found["problem"]["target"]["chunks"][1] == 7
    assert any("are chosen for the accesses" in note for note in found["notes"])
    result = call(
        "run", "x.npy", "y.zarr", "--chunks", "2,5", "--shards", "auto", "--chunk-order", "hilbert", "--quiet"
    )
    assert result.exit_code == 0
    assert ask("verify", "x.npy", "y.zarr")["equal"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("x.npy --access nowhere", "'nowhere' is neither a file nor a preset"),
        ("x.npy --access maps --log x", "give --access or --log, not both"),
        ("x.npy --access maps=-1", "a weight is a number above 0, not -1"),
        ("x.npy --access maps --copies 2", "2 copies for 1 classes"),
        ("x.npy --log nowhere", "nowhere"),
        ("x.npy --access maps --block-size 1", "an element has 4 bytes, a chunk at most 1"),
        ("x.npy --access maps --shape 3,3", "describe a source that is not given"),
        ("nowhere.npy --access maps", "nowhere.npy"),
    ],
)
def test_mistakes_are_one_line(call: Call, sample: Any, look: Any, here: Path, words: str, message: str) -> None:
    before = look(here)
    result = call("advise", *words.split())
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("reblock: error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert look(here) == before


def test_nothing_to_advise_on(call: Call) -> None:
    assert call("advise").exit_code == 2
