"""Sarawagi & Stonebraker's experiment: counts on files are the predicted ones, layouts come in the paper's order."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from reblock.bench.notify import silent
from reblock.bench.papers import sarawagi_run
from reblock.bench.papers.sarawagi import LAYOUTS, SETS, falls, linear_blocks, make_queries, sarawagi_tables, ways
from reblock.bench.papers.sarawagi_run import run_sarawagi
from reblock.cli.application import application
from reblock.errors import UsageError
from reblock.render.columns import WIDTH


def test_at_full_size_layouts_come_in_the_papers_order() -> None:
    (table,) = sarawagi_tables()
    assert table.failures == 0
    rows = table.to_json()["rows"]
    assert [row["layout"] for row in rows] == list(LAYOUTS) * 4
    by_set = {number: [row for row in rows if row["set"] == number] for number in (1, 2, 3, 4)}
    for some in by_set.values():
        unchunked, default, chunked, reordered, copies = some
        assert unchunked["blocks"] > default["blocks"] > chunked["blocks"] == reordered["blocks"] > copies["blocks"]
        assert chunked["fewer"] >= 4
        assert reordered["seconds"] <= chunked["seconds"]
        assert copies["seconds"] < chunked["seconds"]
    assert [row["time_ratio_paper"] for row in by_set[1]] == [None, None, 0.6, 0.24, 0.175]


def test_queries_are_of_the_papers_kinds_and_always_the_same() -> None:
    for data in SETS:
        queries = make_queries(data)
        assert queries == make_queries(data)
        assert {query.kind for query in queries} == {
            "surface plot", "mean over time", "mean over height", "cross-section"
        }  # fmt: skip
        for query in queries:
            assert all(0 <= a < b <= n for a, b, n in zip(query.box.start, query.box.stop, data.shape, strict=True))


def test_blocks_without_chunks_are_counted_element_by_element() -> None:
    data = SETS[0].scaled(60)
    flat, block = np.arange(int(np.prod(data.shape))).reshape(data.shape), data.block_bytes // 4
    queries = make_queries(data)
    counted = sum(len(np.unique(flat[query.box.slices] // block)) for query in queries)
    assert linear_blocks(data, queries) == counted


def check(scale: int, folder: Path, **options: Any) -> None:
    (table,) = run_sarawagi(scale=scale, folder=str(folder), notify=silent, **options)
    assert table.failures == 0
    assert max(map(len, table.to_text().splitlines())) <= WIDTH
    rows = table.to_json()["rows"]
    assert len(rows) == 5 * len(options.get("sets", SETS))
    assert all(row["verified"] for row in rows)
    for row in rows:
        if row["layout"] != "unchunked":
            assert row["blocks_counted"] == row["blocks_predicted"]
    assert os.listdir(folder) == []


def test_really_run(tmp_path: Path) -> None:
    check(40, tmp_path, sets=SETS[:3:2])


@pytest.mark.slow
def test_all_arrays_really_run(tmp_path: Path) -> None:
    check(20, tmp_path)


def test_a_wrong_count_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarawagi_run, "_count", lambda *_: 7)
    (table,) = run_sarawagi(scale=60, folder=str(tmp_path), notify=silent, sets=SETS[:1])
    assert table.failures == 4


def test_nothing_stays_behind_when_cancelled(tmp_path: Path) -> None:
    count = 0

    def cancelled() -> bool:
        nonlocal count
        count += 1
        return count >= 9

    with pytest.raises(KeyboardInterrupt):
        run_sarawagi(scale=60, folder=str(tmp_path), notify=silent, cancelled=cancelled)
    assert os.listdir(tmp_path) == []


def test_scales() -> None:
    for scale in (0, 101):
        with pytest.raises(UsageError, match="use 1 to 100"):
            run_sarawagi(scale=scale, folder=".", notify=silent)
    assert SETS[3].scaled(1).shape == SETS[3].shape
    assert falls([3, 2, 2, 1])
    assert not falls([1, 2])


def test_by_name_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reblock.bench.papers.report.sarawagi_tables", list)
    words = ["bench", "papers", "sarawagi", "--scale", "60", "--dir", str(tmp_path), "--json"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [table["name"] for table in document["tables"]] == ["sarawagi_runs"]


def test_ways_serve_each_query_by_one_copy() -> None:
    data = SETS[1].scaled(60)
    queries = make_queries(data)
    *_, copies = ways(data, queries)
    assert len(copies.chunks) == len(copies.orders) == 2
    assert set(copies.owners) <= {0, 1}
    assert len(copies.owners) == len(queries)
