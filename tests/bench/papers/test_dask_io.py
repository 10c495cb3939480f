"""The drafts' experiments on Dask IO: formulas against brute force, and a small sample that really runs."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from reblock.bench.notify import silent
from reblock.bench.papers import dask_io_run
from reblock.bench.papers.dask_io import CASES, PLAIN, STRATEGIES, DraftCase
from reblock.bench.papers.dask_io_run import check_dask_io, run_dask_io
from reblock.bench.papers.report import execute
from reblock.errors import StorageError, UsageError
from reblock.render.columns import WIDTH

SMALL = [one.scaled(25) for one in CASES]


def boxes(shape: tuple[int, ...], step: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    cuts = [[(a, min(a + s, n)) for a in range(0, n, s)] for n, s in zip(shape, step, strict=True)]
    return list(product(*cuts))


def runs_by_hand(case: DraftCase) -> int:
    """The drafts' count, box by box and file by file."""
    total = 0
    for blocks in case.sides:
        files = boxes(case.shape, blocks)
        for box in boxes(case.shape, case.chunks):
            for file in files:
                part = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, file, strict=True)]
                if all(a < b for a, b in part):
                    whole = all(b - a == d - c for (a, b), (c, d) in zip(part, file, strict=True))
                    (i, i_end), (j, j_end), _ = part
                    total += 1 if whole else (i_end - i) * (j_end - j)
    return total


@pytest.mark.parametrize("case", [one for one in SMALL if one.name in ("split", "merge", "larger", "smaller")])
def test_naive_seeks_are_those_of_the_drafts_formula(case: DraftCase) -> None:
    assert case.naive == runs_by_hand(case)


def test_cases_are_those_of_the_drafts() -> None:
    by_name = {case.name: case for case in CASES}
    assert by_name["resplit"].aggregate == (700, 700, 700)
    assert by_name["resplit"].least == 1343
    assert by_name["split"].naive == 4 * 3500 * 3500 + 64
    assert by_name["equal"].naive == by_name["equal"].least == 2000
    assert by_name["split"].buffer_bytes("whole") == 3500**3 * 2
    assert all(case.scaled(5).chunks == tuple(n // 5 for n in case.chunks) for case in CASES)


def check(tables: list[Any], names: list[str]) -> list[dict[str, Any]]:
    assert [table.name for table in tables] == [f"dask_io_{name}" for name in names]
    rows = [row for table in tables for row in table.to_json()["rows"]]
    assert all(table.failures == 0 for table in tables)
    assert all(len(line) <= WIDTH + 8 for table in tables for line in table.to_text().splitlines())
    assert all(row["verified"] and row["seconds"] > 0 for row in rows)
    return rows


def test_a_split_runs_with_and_without_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_io_run, "PLAIN", ("dask",))
    monkeypatch.setattr(dask_io_run, "STRATEGIES", ("auto",))
    case = replace(CASES[0].scaled(35), buffers=("slice",))
    rows = check(run_dask_io(scale=1, folder=str(tmp_path), repeats=1, notify=silent, cases=[case]), ["split"])
    plain, auto = rows
    assert (plain["program"], auto["program"]) == ("dask", "auto")
    assert plain["seeks_paper"] == case.naive == plain["seeks"] - 64
    # Four slices, each an opening and a run, and each block once; the kernel counts a few calls for metadata too.
    assert auto["buffers"] == "4 clustered"
    assert auto["seeks"] == 2 * 4 + 64 <= auto["calls"] < plain["calls"]
    assert auto["bytes"] < plain["bytes"]
    assert os.listdir(tmp_path) == []


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_every_experiment_runs(tmp_path: Path) -> None:
    rows = check(execute(["dask-io"], scale=25, repeats=1, folder=str(tmp_path)), [case.name for case in CASES])
    assert len(rows) == sum(len(PLAIN) + len(STRATEGIES) * len(case.buffers) for case in CASES)


def test_what_cannot_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="divided by 3"):
        check_dask_io(3)
    monkeypatch.setattr(dask_io_run, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"reblock\[dask,library\]"):
        check_dask_io(5)


def test_a_failed_run_is_an_error(tmp_path: Path) -> None:
    job = {"source": str(tmp_path / "none.h5"), "target": str(tmp_path / "t.zarr"), "chunks": [2], "engine": "dask"}
    with pytest.raises(StorageError, match="dask: "):
        dask_io_run._run_process(job, str(tmp_path), lambda: False)
