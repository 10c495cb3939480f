"""Bits that careless code loses, between every pair of formats: they survive, or the report says that they did not."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.model.schema import Schema
from reblock.model.store import Store
from reblock.storage import registry
from reblock.testing.arrays import in_byte_order, specials
from reblock.testing.compare import same_value
from reblock.testing.reference_io import read_array, write_array

FORMATS = {"npy": "x.npy", "blocks": "x", "rawblocks": "r", "zarr": "x.zarr", "zarr2": "y.zarr", "hdf5": "x.h5"}
PAIRS = list(product(FORMATS, FORMATS))
ATTRIBUTES: dict[str, Any] = {
    "text": "é",
    "empty": "",
    "whole": 2**53 + 1,
    "negative zero": -0.0,
    "small": np.float32(0.1),
    "numbers": np.arange(3, dtype=">i2"),
    "nested": {"a": [1, None, {"b": "c"}]},
    "names": ["a", "b"],
    "flag": True,
    "nothing": None,
    "not a number": float("nan"),
    "infinity": [float("inf"), -float("inf")],
}


def make(folder: Path, name: str, schema: Schema, data: np.ndarray[Any, Any]) -> tuple[Store, tuple[str, ...]]:
    """A source of one format, and what of the schema that format has not kept."""
    kind = registry.get(name)
    adapted = kind.adapt(schema, ())
    store = kind.create(str(folder / FORMATS[name]), "", adapted)
    write_array(store, in_byte_order(data, adapted.dtype))
    store.commit()
    return registry.open(store.location), adapted.notes


def bits(value: Any, dtype: np.dtype[Any]) -> bytes:
    return np.asarray(value, dtype.newbyteorder("=")).tobytes()


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize(
    "dtype", ["<f4", *(pytest.param(dtype, marks=pytest.mark.faults) for dtype in (">f8", "<c8", "<f2"))]
)
def test_elements_and_fill(tmp_path: Path, first: str, second: str, dtype: str) -> None:
    """A chunk that is all fill, but for the payload of its NaNs, is not taken for one that need not be stored."""
    kind = np.dtype(dtype)
    data = np.resize(specials(kind), (8, 6)).astype(kind, copy=False)
    data[:4, :3] = np.frombuffer(np.asarray(specials(kind)[3:5]).tobytes(), kind)[0]
    fill = np.frombuffer(np.asarray(specials(kind)[4:5]).tobytes(), kind)[0]
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    source, _ = make(tmp_path / "one", first, Schema((8, 6), kind, (4, 3), fill_value=fill), data)
    target = tmp_path / "two" / FORMATS[second]
    report = reblock.repartition(source.location, target, chunks=(3, 4), to_format=second)
    found = registry.open(str(target))
    assert in_byte_order(read_array(found), kind).tobytes() == data.tobytes()
    assert found.layout.dtype.newbyteorder("=") == kind.newbyteorder("=")
    if found.layout.dtype != kind:
        assert any("byte order" in note for note in report.notes)
    before = source.schema.fill_value
    if before is not None and (
        found.schema.fill_value is None or bits(before, kind) != bits(found.schema.fill_value, kind)
    ):
        assert any("fill value" in note for note in report.notes), report.notes


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_attributes(tmp_path: Path, first: str, second: str) -> None:
    """What comes back as another value, or not at all, is named."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    data = np.arange(12, dtype="<i4").reshape(4, 3)
    schema = Schema((4, 3), data.dtype, (2, 3), attributes=ATTRIBUTES, axes=("y", "x"))
    source, notes = make(tmp_path / "one", first, schema, data)
    compare(ATTRIBUTES, source.schema.attributes, notes)
    target = tmp_path / "two" / FORMATS[second]
    report = reblock.repartition(source.location, target, chunks=(3, 2), to_format=second)
    found = registry.open(str(target)).schema
    compare(source.schema.attributes, found.attributes, report.notes)
    if source.schema.axes != found.axes:
        assert any("axes" in note or "axis" in note for note in report.notes)


def compare(before: Any, after: Any, notes: tuple[str, ...]) -> None:
    for name, value in before.items():
        if name not in after or not same_value(value, after[name]):
            assert any(name in note for note in notes), (name, value, after.get(name), notes)
    assert set(after) <= set(before)


@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("dtype", ["<M8[ns]", "<U3", "|S3", "|V3", "<f16"])
def test_types_that_not_every_format_has(tmp_path: Path, second: str, dtype: str) -> None:
    """Every bit arrives, or the run is refused before anything is written."""
    data = np.frombuffer(np.random.default_rng(0).bytes(24 * np.dtype(dtype).itemsize), dtype).reshape(4, 6)
    if dtype == "<U3":
        data = np.array([["a", "bc", "déf"], ["", "x", "y"]], dtype)
    np.save(tmp_path / "s.npy", data)
    target = tmp_path / FORMATS[second]
    try:
        reblock.repartition(tmp_path / "s.npy", target, chunks=(2, 2), to_format=second)
    except reblock.UsageError:
        assert not target.exists()
    else:
        assert read_array(registry.open(str(target))).tobytes() == data.tobytes()
