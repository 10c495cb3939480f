"""Shapes, chunks, regions and orders as people write them: in text, by numbers, by name, and with numpy's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reblock.errors import UsageError
from reblock.geometry.box import Box
from reblock.geometry.notation import order_by_name, parse_chunks, parse_order, parse_region, parse_shape, reorder

SHAPE, NAMES = (40, 30, 50), ("time", "lat", "lon")
DEFAULT = (4, 3, 5)


@pytest.mark.parametrize(
    "shape", ["40,30,50", (40, 30, 50), [np.int64(40), np.uint8(30), 50], np.array([40, 30, 50]), " 40, 30 ,50"]
)
def test_shapes(shape: Any) -> None:
    assert parse_shape(shape) == SHAPE


def test_a_shape_of_one_axis() -> None:
    assert parse_shape(7) == parse_shape("7") == parse_shape(np.int32(7)) == parse_shape([7]) == (7,)
    assert parse_shape(()) == parse_shape("()") == ()


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ("8", (8, 8, 8)),
        (8, (8, 8, 8)),
        (np.int64(8), (8, 8, 8)),
        ("-1", SHAPE),
        ("full", SHAPE),
        ("auto", ("auto",) * 3),
        (["auto"], ("auto",) * 3),
        (np.array([8, 9, 10]), (8, 9, 10)),
        ((np.int16(8), "full", "-1"), (8, 30, 50)),
        ("20+20,30,50", ((20, 20), 30, 50)),
        ((np.array([20, 20]), 30, 50), ((20, 20), 30, 50)),
        ("time=1", (1, 3, 5)),
        ("lon=full, time=7", (7, 3, 50)),
        ({"time": np.int64(1), "lat": -1}, (1, 30, 5)),
        ({"time": [20, 20], "lon": "auto"}, ((20, 20), 3, "auto")),
        ({0: 2, -1: 6}, (2, 3, 6)),
        ("0=2,2=6", (2, 3, 6)),
    ],
    ids=repr,
)
def test_chunks(chunks: Any, expected: tuple[Any, ...]) -> None:
    assert parse_chunks(chunks, SHAPE, DEFAULT, NAMES) == expected


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("3:9", "[3:9, 0:30, 0:50]"),
        ("3:9,1:", "[3:9, 1:30, 0:50]"),
        ("3", "[3:4, 0:30, 0:50]"),
        ("-1", "[39:40, 0:30, 0:50]"),
        (np.int64(3), "[3:4, 0:30, 0:50]"),
        ("...,3:9", "[0:40, 0:30, 3:9]"),
        ("3:9,...,4", "[3:9, 0:30, 4:5]"),
        (np.s_[3:9], "[3:9, 0:30, 0:50]"),
        (np.s_[3:9, np.int32(4)], "[3:9, 4:5, 0:50]"),
        (np.s_[..., -2], "[0:40, 0:30, 48:49]"),
        (np.s_[np.int64(3) : np.int64(9), :, -5:], "[3:9, 0:30, 45:50]"),
        (np.s_[...], "[0:40, 0:30, 0:50]"),
        ("time=3:9", "[3:9, 0:30, 0:50]"),
        ("lon=:7,time=3", "[3:4, 0:30, 0:7]"),
        ({"lat": slice(3, 9)}, "[0:40, 3:9, 0:50]"),
        ({"lat": np.int8(4), "lon": "1:3", 0: -1}, "[39:40, 4:5, 1:3]"),
        ("()", "[0:40, 0:30, 0:50]"),
        ([slice(1, 2), slice(None), slice(3, 4)], "[1:2, 0:30, 3:4]"),
    ],
    ids=repr,
)
def test_regions(region: Any, expected: str) -> None:
    assert str(parse_region(region, SHAPE, NAMES)) == expected


@pytest.mark.parametrize("order", ["2,0,1", (2, 0, 1), np.array([2, 0, 1]), "lon,time,lat", ("lon", 0, -2)], ids=repr)
def test_orders(order: Any) -> None:
    assert parse_order(order, 3, NAMES) == (2, 0, 1)


def test_without_axes() -> None:
    assert parse_chunks(8, (), ()) == parse_chunks("()", (), ()) == parse_chunks((), (), ()) == ()
    assert parse_region("()", ()) == parse_region((), ()) == parse_region(..., ()) == Box((), ())
    assert parse_order("()", 0) == parse_order((), 0) == ()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: parse_shape("4,x"), "'x'"),
        (lambda: parse_shape((4, True)), "integers, not True"),
        (lambda: parse_shape((4, 2.0)), "integers, not 2.0"),
        (lambda: parse_chunks((8,), SHAPE, DEFAULT), "have 1 axes, the array has 3"),
        (lambda: parse_chunks("8,8", SHAPE, DEFAULT), "have 2 axes, the array has 3"),
        (lambda: parse_chunks("x=8", SHAPE, DEFAULT, NAMES), "'x' names no axis: the axes are time, lat, lon"),
        (lambda: parse_chunks("x=8", SHAPE, DEFAULT), "have no names, use numbers below 3"),
        (lambda: parse_chunks("time=8,9", SHAPE, DEFAULT, NAMES), "'9' names no axis: write NAME=CHUNK"),
        (lambda: parse_chunks("time=8,0=9", SHAPE, DEFAULT, NAMES), "'0' is given twice"),
        (lambda: parse_chunks({3: 8}, SHAPE, DEFAULT), "no axis 3: the array has 3"),
        (lambda: parse_chunks(True, SHAPE, DEFAULT), "not True"),
        (lambda: parse_chunks("0", SHAPE, DEFAULT), "at least 1"),
        (lambda: parse_region("1:2,1:2,1:2,1:2", SHAPE), "has 4 axes, the array has 3"),
        (lambda: parse_region("...,1,...", SHAPE), "one ... is enough"),
        (lambda: parse_region("::2", SHAPE), "step"),
        (lambda: parse_region(np.s_[::2], SHAPE), "only whole ranges"),
        (lambda: parse_region("-41", SHAPE), "before the start of the axis"),
        (lambda: parse_region("40", SHAPE), "beyond the axis"),
        (lambda: parse_region({"depth": 1}, SHAPE, NAMES), "'depth' names no axis"),
        (lambda: parse_region("time=1:2:3:4", SHAPE, NAMES), "START:STOP"),
        (lambda: parse_region(1.5, SHAPE), "not 1.5"),
        (lambda: parse_order("lon,lat", 3, NAMES), "permutation of 0..2, or time,lat,lon in another order"),
        (lambda: parse_order("z,y,x", 3, NAMES), "'z' names no axis"),
        (lambda: parse_order({"a": 1}, 3), "list of axes"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_named(call: Any, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("axes", "moved"),
    [
        (("t", "y", "x"), (1, 2, 0)),
        (("t", "z", "y", "x"), (2, 1, 3, 0)),
        (("x", "z", "y"), (2, 1, 0)),
        (("z", "t"), (0, 1)),
        (("y", "x"), (0, 1)),
        (("x", "t", "x"), (0, 2, 1)),
        ((), ()),
    ],
)
def test_an_order_for_many_arrays(axes: tuple[str, ...], moved: tuple[int, ...]) -> None:
    assert reorder(axes, order_by_name(" y, x,t", {"t", "x", "y", "z"})) == moved
