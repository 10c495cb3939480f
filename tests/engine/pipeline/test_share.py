"""Shares leave their memory to the next one, and the last ones return it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.engine.memory.budget import Memory, SpareMemory


class _Counting(Executor):
    """One thread in the place of two workers; counts the buffers that are kept after each share."""

    def __init__(self, kept: Callable[[], int]) -> None:
        self._pool, self._kept = ThreadPoolExecutor(1), kept
        self.num_workers = 2
        self.counts: list[int] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **more: Any) -> Any:
        def call() -> Any:
            result = function(*arguments, **more)
            self.counts.append(self._kept())
            return result

        return self._pool.submit(call)


def test_only_shares_that_another_one_follows_leave_their_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Memory] = []
    leave, take = SpareMemory.leave, SpareMemory.take

    def leaving(self: SpareMemory, memories: Any) -> None:
        kept.extend(memories)
        leave(self, memories)

    def taking(self: SpareMemory, *limits: Any) -> Any:
        kept.clear()
        return take(self, *limits)

    monkeypatch.setattr(SpareMemory, "leave", leaving)
    monkeypatch.setattr(SpareMemory, "take", taking)
    data = np.arange(64 * 64 * 64, dtype="u4").reshape(64, 64, 64)
    np.save(tmp_path / "x.npy", data)
    executor = _Counting(lambda: len(kept))
    job = reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", chunks=(16, 16, 64), memory="512KiB", device="nvme")
    reblock.run(job, executor=executor)
    *before, last = executor.counts
    assert any(before)
    assert last == 0
    assert np.array_equal(reblock.open(tmp_path / "y.zarr")[...], data)
