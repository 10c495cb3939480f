"""How little a small run loads and computes; how long that takes is measured by `benchmarks/start.py`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reblock.planner import Decision

#: Loads nothing that this job does not use: neither libraries of other formats nor modules of other commands.
HEAVY = {
    "asyncio",
    "email",
    "fsspec",
    "h5py",
    "importlib.metadata",
    "numcodecs",
    "psutil",
    "reblock.api.compare",
    "reblock.api.resumption",
    "reblock.bench",
    "reblock.storage.hdf5",
    "subprocess",
    "zarr",
}
#: All modules, those of Python and numpy included; 459 when this was written, half of them from Python and numpy.
MOST_MODULES = 570

CODE = """
import sys
from reblock.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_small_run_loads_little(sample: Any, here: Path, words: list[str]) -> None:
    command = [sys.executable, "-c", CODE, "run", "x.npy", "y.zarr", "--chunks", "-1,10", "--quiet", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    loaded = set(done.stderr.split())
    assert "reblock.engine.pipeline.execute" in loaded
    assert loaded & HEAVY == set()
    assert len(loaded) <= MOST_MODULES


def test_a_run_prices_no_strategy_for_its_document(
    sample: Any, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = ask("plan", "x.npy", "y.zarr", "--chunks", "-1,10")
    monkeypatch.setattr(Decision, "alternatives", property(lambda _self: pytest.fail("priced for nobody")))
    made = ask("run", "x.npy", "y.zarr", "--chunks", "-1,10")
    shown = [one["strategy"] for one in made["alternatives"]]
    assert shown[0] == made["strategy"] == planned["strategy"]
    assert set(shown) < {one["strategy"] for one in planned["alternatives"]}
