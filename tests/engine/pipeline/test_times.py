"""What a run says of its time: by the clock or by the processor, and until everything is on the medium."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.runs.group_commit import GroupCommit
from reblock.storage.zarr.format import ZarrStore

PAUSE = 0.2


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.arange(64 * 64 * 64, dtype="<f4").reshape(64, 64, 64))
    return tmp_path / "x.npy"


def test_a_run_lasts_until_all_is_on_the_medium(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flush = GroupCommit.flush

    def slow(self: GroupCommit, *arguments: Any) -> None:
        time.sleep(PAUSE)
        flush(self, *arguments)

    monkeypatch.setattr(GroupCommit, "flush", slow)
    report = reblock.repartition(source, source.with_suffix(".zarr"), chunks=(32, 32, 32), device="nvme")
    assert report.measured.seconds >= PAUSE


def test_a_thread_that_waits_does_not_encode(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = ZarrStore.encode

    def slow(self: ZarrStore, *arguments: Any) -> Any:
        time.sleep(PAUSE)
        return encode(self, *arguments)

    monkeypatch.setattr(ZarrStore, "encode", slow)
    report = reblock.repartition(
        source, source.with_suffix(".zarr"), chunks=(64, 64, 64), codec="zstd:1", device="nvme"
    )
    assert 0 < report.times.encode < PAUSE
    assert report.measured.seconds >= PAUSE
