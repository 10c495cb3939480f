"""The validation of the seek model: predictions are counted, and wrong ones are noticed."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from reblock.bench.notify import silent
from reblock.bench.papers import cases as bench_cases
from reblock.bench.papers.cases import run_cases


def test_validation(tmp_path: Path) -> None:
    told: list[str] = []
    table = run_cases(12, folder=str(tmp_path), seed=3, notify=told.append)
    baseline, keep = table.to_json()["rows"]
    assert (keep["cases"], baseline["cases"]) == (12, 4)
    assert table.failures == 0
    for row in (baseline, keep):
        assert row["seeks_predicted"] == row["seeks_counted"] > 0
    assert told == ["validation of the seek model: case 0 of 12"]
    assert os.listdir(tmp_path) == []


def test_validation_notices_a_wrong_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, held = bench_cases.traffic, bench_cases.held_elements

    def wrong(*words, **options):
        found = count(*words, **options)
        return replace(found, seeks=found.seeks + 1)

    monkeypatch.setattr(bench_cases, "traffic", wrong)
    rows = run_cases(2, folder=str(tmp_path), notify=silent).to_json()["rows"]
    assert [row["wrong_seeks"] for row in rows] == [2, 2]
    monkeypatch.setattr(bench_cases, "traffic", count)
    monkeypatch.setattr(bench_cases, "held_elements", lambda sweep: held(sweep) - 1)
    rows = run_cases(2, folder=str(tmp_path), notify=silent).to_json()["rows"]
    assert [row["wrong_held"] for row in rows] == [2, 2]


def test_validation_notices_a_wrong_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_cases, "has_elements", lambda *_: False)
    assert run_cases(1, folder=str(tmp_path), notify=silent).failures == 3


def test_cases_are_those_of_the_thesis() -> None:
    rng = random.Random(0)
    sides = set()
    for _ in range(200):
        side, source, target = bench_cases._draw(rng)
        sides.add(side)
        assert source != target
        for length in (*source, *target):
            assert side % length == 0
            assert side // length <= bench_cases.MAX_BLOCKS
    assert sides <= {16, 24, 32, 36}
    assert len(sides) > 2
