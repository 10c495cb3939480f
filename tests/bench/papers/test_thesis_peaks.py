"""The authors' count gives every printed peak of thesis Table 4."""

from __future__ import annotations

import pytest

from reblock.bench.papers.figures import CONFIGS_3500, ITEM_BYTES, TABLE_4
from reblock.bench.papers.thesis_peaks import estimated_peak

CELLS = [(gigabytes, number) for gigabytes in TABLE_4 for number in range(len(CONFIGS_3500))]


@pytest.mark.parametrize(("gigabytes", "number"), CELLS)
def test_every_cell_of_table_4(gigabytes: int, number: int) -> None:
    config, printed = CONFIGS_3500[number], TABLE_4[gigabytes][number]
    assert printed.agrees(estimated_peak(config.shape, printed.read, config.target) * ITEM_BYTES)


def test_there_are_21_cells() -> None:
    assert len(CELLS) == 21


def test_aligned_ends_count_as_left_over() -> None:
    """Reads of 8 end on every cut of blocks of 4, and yet 4 of 8 are counted as kept."""
    assert estimated_peak((16,), (8,), (4,)) == 8 + 0  # both halves are whole blocks, which are written
    assert estimated_peak((12, 16), (2, 8), (3, 4)) == 16 + 8  # too short along axis 0 to be whole
    assert estimated_peak((16,), (4,), (4,)) == 4
