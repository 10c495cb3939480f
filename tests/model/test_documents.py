"""Documents of layouts are complete, and hostile ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.model import Layout
from reblock.model.documents import layout_document, read_layout
from reblock.model.layout import Coding
from reblock.testing.problems import layouts, shapes


@given(st.data())
def test_a_layout_comes_back(data: st.DataObject) -> None:
    layout = data.draw(layouts(data.draw(shapes()), target=data.draw(st.booleans())))
    document = json.loads(json.dumps(layout_document(layout)))
    found = read_layout(document, "source")
    assert found.to_json() == layout.to_json()
    assert layout_document(found) == document
    for one, two in zip(
        (*found.objects.axes, *found.units.axes), (*layout.objects.axes, *layout.units.axes), strict=True
    ):
        assert one.canonical() == two.canonical()
    flags = ("dtype", "order", "codec", "partial_reads", "partial_writes", "indexed", "divided", "remote")
    assert all(getattr(found, name) == getattr(layout, name) for name in flags)


def test_figures_come_back() -> None:
    grid = Grid.of((10, 0), (4, 3), padded=True)
    made = Layout(
        np.dtype(">f8"), grid, grid, (1, 0), "zstd:3", coding=Coding(5, 6, in_place=True), stored_bytes=(7, 3),
        stored_part=0.25, remote=True,
    )  # fmt: skip
    assert read_layout(json.loads(json.dumps(layout_document(made))), "x") == made


SPOILED: list[Callable[[dict[str, Any]], object]] = [
    lambda d: d.pop("units"),
    lambda d: d.update(more=1),
    lambda d: d.update(shape=[10]),
    lambda d: d.update(shape=[10, -1]),
    lambda d: d.update(shape=[10, 2**63]),
    lambda d: d.update(shape=[1] * 65, order=list(range(65))),
    lambda d: d.update(dtype="O"),
    lambda d: d.update(dtype="f8,f8"),
    lambda d: d.update(dtype="|S0"),
    lambda d: d.update(dtype="(2,2)f8"),
    lambda d: d.update(order=[0, 0]),
    lambda d: d.update(codec=None),
    lambda d: d.update(stored_part=float("nan")),
    lambda d: d.update(stored_part=-1),
    lambda d: d.update(stored_part="1"),
    lambda d: d.update(stored_bytes=[-1]),
    lambda d: d.update(coding=[1, 2]),
    lambda d: d.update(coding=[1, -2, 0]),
    lambda d: d.update(indexed=1),
    lambda d: d["objects"].update(beyond=[[0, 0]]),
    lambda d: d["objects"].update(beyond=[[0, -1], [0, 0]]),
    lambda d: d["objects"].update(beyond=[[0, 2**63], [0, 0]]),
    lambda d: d["objects"].update(chunks=[0, 3]),
    lambda d: d["objects"].update(chunks=[[4, 4], 3]),
    lambda d: d.update(units={"chunks": [5, 12], "beyond": [[0, 0], [0, 0]]}),
]


@pytest.mark.parametrize("spoil", SPOILED, ids=map(str, range(len(SPOILED))))
def test_a_spoiled_document_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    document = layout_document(Layout.raw("<f4", Grid.of((10, 12), (4, 3))))
    assert read_layout(document, "x").shape == (10, 12)
    spoil(document)
    with pytest.raises(UsageError):
        read_layout(document, "x")
