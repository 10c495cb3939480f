"""The digest of tables: the formula on the page is the one in the program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reblock.engine.digest import TableDigest
from reblock.engine.digest.tables import type_text

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "digest.md"
RECORDS = np.array([(1, 0.5, b"x"), (2, -0.25, b"")], [("a", ">i4"), ("b", "f8"), ("s", "S3")])
TABLES: dict[str, tuple[str, Any]] = {
    "text": ("text", np.array(["a", "", "日本"], object)),
    "bytes": ("bytes", np.array([[b"a", b"\xff"], [b"", b"\0"]], object)),
    "record": ("record", RECORDS),
    "enum": ("enum", np.array([1, 2, 1], ">i2")),
    "no axes": ("text", np.array("alone", object)),
    "nothing": ("text", np.empty((0, 3), object)),
}


def by_page(kind: str, table: Any) -> str:
    """The digest that the code on the page computes."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec("\n".join(line for line in block.splitlines() if not line.startswith("print(")), names)
    return str(names["table_digest"](kind, table))


def by_us(kind: str, table: Any, step: int) -> str:
    taken = TableDigest(kind, table.dtype, table.shape)
    for start in range(0, len(table), step) if table.shape else (0,):
        taken.update(table[start : start + step] if table.shape else table)
    return taken.text()


@pytest.mark.parametrize("step", [1, 2, 100])
@pytest.mark.parametrize("name", list(TABLES))
def test_the_page_and_the_program_agree(name: str, step: int) -> None:
    kind, table = TABLES[name]
    told = kind if kind in ("text", "bytes") else type_text(table.dtype)
    assert by_us(kind, table, step) == by_page(told, table)


def test_what_counts() -> None:
    """Byte order and padding do not count; values, order, shape, type and names of fields do."""
    padded = np.dtype(
        {"names": ["a", "b", "s"], "formats": ["<i4", "<f8", "S3"], "offsets": [0, 8, 16], "itemsize": 24}
    )
    same = np.zeros(2, padded)
    for field in RECORDS.dtype.names or ():
        same[field] = RECORDS[field]
    whole = by_us("record", RECORDS, 1)
    assert by_us("record", same, 2) == whole
    changed = RECORDS.copy()
    changed["b"][1] = 0.25
    renamed = RECORDS.astype([("a", "i4"), ("c", "f8"), ("s", "S3")])
    others = [by_us("record", one, 1) for one in (changed, renamed, RECORDS[::-1], RECORDS.reshape(1, 2))]
    assert len({whole, *others}) == 5
    texts = [np.array(one, object) for one in (["ab", "c"], ["a", "bc"], ["abc", ""])]
    assert len({by_us("text", one, 1) for one in texts} | {by_us("bytes", np.array([b"ab", b"c"], object), 1)}) == 4
