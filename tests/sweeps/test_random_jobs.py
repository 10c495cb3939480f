"""Random jobs between all formats, codecs, shards, crops and transposes; `make fuzz` runs a thousand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from sweeps.jobs import check_job

#: Parts that test processes share.
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_random_jobs(part: int, tmp_path: Path) -> None:
    for number in range(part, settings.default.max_examples // 2, PARTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            check_job(number, folder)
        except Exception as error:
            error.add_note(f"job {number}: what it made is in {folder}")
            raise
        shutil.rmtree(folder)
