"""`plan --save` and `run --plan`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_a_saved_plan_is_run(sample: Any, ask: Callable[..., Any], here: Path) -> None:
    planned = ask("plan", "x.npy", "y.zarr", "--chunks", "-1,10", "--save", "p.json")
    assert any("--plan p.json" in note for note in planned["notes"])
    made = ask("run", "x.npy", "y.zarr", "--plan", "p.json")
    assert made["passes"] == planned["passes"]
    assert made["measured"]["seeks"] == planned["cost"]["seeks"]


@pytest.mark.parametrize(
    "words",
    [["--memory", "1GiB"], ["--chunks", "5,5"], ["--strategy", "keep"], ["--checksum"], ["--device", "hdd"]],
)
def test_what_a_plan_decides_is_refused_beside_it(
    sample: Any, call: Callable[..., Any], ask: Callable[..., Any], here: Path, words: list[str]
) -> None:
    ask("plan", "x.npy", "y.zarr", "--chunks", "-1,10", "--save", "p.json")
    done = call("run", "x.npy", "y.zarr", "--plan", "p.json", *words)
    assert done.exit_code == 1
    assert f"--plan decides {words[0]}" in done.stderr
    assert not (here / "y.zarr").exists()
