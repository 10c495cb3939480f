"""`reblock replicas`: the story of a folder of copies, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from reblock.cli.application import application


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = np.arange(24 * 30 * 20, dtype="i4").reshape(24, 30, 20)
    np.save("x.npy", values)
    values[5:9] = -1
    np.save("new.npy", values)


def call(*words: str) -> Any:
    found = CliRunner().invoke(application, ["replicas", *words])
    return found.exit_code, found.output


def test_from_making_to_mending() -> None:
    create = ["create", "x.npy", "copies", "--access", "time-series=3,maps", "--block-size", "1KiB:4KiB"]
    code, shown = call(*create)
    assert code == 0, shown
    assert "2 copies, generation 1" in shown
    code, shown = call("explain", "copies", "--region", "5,:,:", "--json")
    assert code == 0
    assert json.loads(shown)["copy"] == json.loads(shown)["prices"][0]["copy"]
    assert call("read", "copies", "--region", "0,0,0:3") == (0, "[[[0, 1, 2]]]\n")
    code, shown = call("update", "copies", "new.npy", "--region", "5:9,:,:", "--json")
    assert code == 0
    assert json.loads(shown)["generation"] == 2
    assert call("read", "copies", "--region", "5,0,0:3") == (0, "[[[-1, -1, -1]]]\n")
    chunk = next(Path("copies/generations/000002/0.zarr/c").rglob("0"))
    while chunk.is_dir():
        chunk = next(chunk.iterdir())
    chunk.write_bytes(b"")
    code, shown = call("repair", "copies")
    assert code == 0
    assert "1 mended, 0 lost" in shown


def test_what_is_missing_is_said() -> None:
    code, shown = call("update", "copies", "new.npy")
    assert code == 2
    assert "--region" in shown
    code, shown = call("read", "nowhere")
    assert code != 0
    code, shown = call("create", "x.npy", "copies")
    assert code != 0
    assert not Path("copies").exists()
