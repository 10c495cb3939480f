"""Hostile and odd metadata gives one typed error before anything is allocated."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import DiskError, FormatError
from reblock.storage import attributes
from reblock.storage.checks import (
    MAX_ITEM_BYTES,
    MAX_JSON_BYTES,
    MAX_JSON_DEPTH,
    MAX_JSON_DIGITS,
    MAX_JSON_VALUES,
    NUMBERS,
    check_chunks,
    check_dtype,
    check_integer,
    check_keys,
    check_order,
    check_shape,
    load_json,
    parse_json,
    show,
)


@pytest.mark.parametrize("value", [[], [0], [3, 4], (5,), [2**40, 2**20], [1] * 32, [np.int64(3)]])
def test_shapes(value: Any) -> None:
    shape = check_shape(value, where="x")
    assert shape == tuple(value)
    assert all(type(n) is int for n in shape)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1] * 65, "65 axes.* 32"),
        ([1] * 33, "33 axes.* 32"),
        ([10**30], "2\\*\\*63"),
        ([-1], "-1"),
        ([2**32, 2**31], "2\\*\\*63"),
        ([0, 2**62, 2**62], "2\\*\\*63"),
        ([1.0], "1.0"),
        ([math.nan], "nan"),
        ([True], "True"),
        (["3"], "'3'"),
        ("33", "'33'"),
        (None, "None"),
        (3, "3"),
        ({"a": 1}, "a"),
    ],
)
def test_impossible_shapes(value: Any, says: str) -> None:
    with pytest.raises(FormatError, match=f"^place: .*{says}"):
        check_shape(value, where="place")


def test_the_item_size_counts() -> None:
    assert check_shape([2**62], where="x", itemsize=1) == (2**62,)
    with pytest.raises(FormatError, match="9223372036854775808 bytes"):
        check_shape([2**62], where="x", itemsize=2)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([0, 1], "not 0"),
        ([1], "1 axes, the shape has 2"),
        ([1, 2, 3], "3 axes"),
        ([-2, 1], "-2"),
        ([1.5, 1], "1.5"),
        ([2**62, 4], "2\\*\\*63"),
        ([[5, 5], 1], "integer"),
        (None, "None"),
        ("11", "'11'"),
    ],
)
def test_impossible_chunks(value: Any, says: str) -> None:
    with pytest.raises(FormatError, match=f"^place: .*{says}"):
        check_chunks(value, (10, 10), 1, where="place")


def test_irregular_chunks() -> None:
    assert check_chunks([[3, 7], 4], (10, 10), 8, where="x", irregular=True) == ((3, 7), 4)
    assert check_chunks([[], 4], (0, 10), 8, where="x", irregular=True) == ((), 4)
    for wrong in ([3, 6], [0, 10], [11, -1], [True, 9], ["10"], [2.0, 8]):
        with pytest.raises(FormatError):
            check_chunks([wrong, 4], (10, 10), 8, where="x", irregular=True)


@pytest.mark.parametrize("value", [[0], [0, 0], [1, 2], [0, -1], [0.0, 1], None, "01", [0, 1, 2]])
def test_impossible_orders(value: Any) -> None:
    with pytest.raises(FormatError):
        check_order(value, 2, where="x")
    assert check_order([1, 0], 2, where="x") == (1, 0)


@pytest.mark.parametrize("value", ["|b1", "<f4", ">c16", "<u8", "|S3", "<U2", "<M8[ns]", "<m8[D]", "|V5"])
def test_types(value: str) -> None:
    assert check_dtype(value, where="x").str == value
    assert check_dtype(np.dtype(value), where="x").str == value


@pytest.mark.parametrize(
    "value",
    [
        "O", "|O8", "f4,i4", "(2,)f4", "S0", "U0", "V0", "float", "", "nonsense", "<f3", "f4\0", "a" * 10000,
        None, 3, ["<f4"], [["a", "<f4"]], {"names": ["a"]},
        np.dtype([("a", "f4")]), np.dtype("O"), np.dtype(("f4", (2,))),
    ],
    ids=show,
)  # fmt: skip
def test_impossible_types(value: Any) -> None:
    if value == "float":
        value = np.dtype(np.dtypes.StringDType()) if hasattr(np.dtypes, "StringDType") else "O"
    with pytest.raises(FormatError):
        check_dtype(value, where="x")


def test_types_that_one_format_cannot_hold() -> None:
    with pytest.raises(FormatError, match="datetime64"):
        check_dtype("<M8[ns]", where="x", kinds=NUMBERS)


def test_integers() -> None:
    assert check_integer(np.uint8(3), what="a", where="x") == 3
    for wrong in (True, np.True_, 1.0, "1", None, -1, 2**63, 10**5000):
        with pytest.raises(FormatError):
            check_integer(wrong, what="a", where="x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "nested"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested"),
        ('{"a":' * (MAX_JSON_DEPTH + 1) + "1" + "}" * (MAX_JSON_DEPTH + 1), "nested"),
        ('{"a": ' + "9" * 5000 + "}", "5,000 digits"),
        ('{"a": -' + "9" * MAX_JSON_DIGITS + "}", "digits"),
        ("", "not valid JSON"),
        ('{"a": 1', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ("[1]", "expected a JSON object"),
        ("3", "expected a JSON object"),
        ("null", "expected a JSON object"),
    ],
    ids=["open", "lists", "objects", "just", "digits", "minus", "empty", "cut", "quotes", "list", "number", "null"],
)
def test_hostile_json(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "meta.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=says) as error:
        load_json(str(path))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("values", ["{}", "[]", "1.5", '"é"', '{"a":1}'])
def test_json_with_many_values_takes_little_memory(values: str) -> None:
    """A document just inside the limits is read in the memory that a hostile one may take; one outside is not read."""
    count = min(MAX_JSON_VALUES // (1 + values.count(":") + values.count("{") + values.count("[")) - 9, 400_000)
    text = '{"a": [' + ",".join([values] * count) + "]}"
    tracemalloc.start()
    try:
        assert len(parse_json(text.encode(), where="x")["a"]) == count
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
        with pytest.raises(FormatError, match="values of JSON"):
            parse_json(b'{"a": [' + b"1," * MAX_JSON_VALUES + b"1]}", where="x")
    finally:
        tracemalloc.stop()


def test_elements_of_any_size_are_not_allocated() -> None:
    assert check_dtype(f"|V{MAX_ITEM_BYTES}", where="x").itemsize == MAX_ITEM_BYTES
    for kind in (f"|V{MAX_ITEM_BYTES + 1}", "|S2147483647", "<U400000000"):
        with pytest.raises(FormatError, match="the limit is 1,048,576"):
            check_dtype(kind, where="x")


def test_json_as_deep_as_the_limit() -> None:
    text = '{"a":' * MAX_JSON_DEPTH + "1" + "}" * MAX_JSON_DEPTH
    assert parse_json(text.encode(), where="x")


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(FormatError, match="not valid JSON"):
        parse_json(b'{"a": "\xff\xfe"}', where="x")


def test_large_json_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(FormatError, match=f"1,099,511,627,776 bytes .* {MAX_JSON_BYTES:,}"):
        load_json(str(path))


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="a pipe"):
        load_json(str(tmp_path / "pipe"))
    with pytest.raises(FormatError, match="a folder"):
        load_json(str(tmp_path))
    with pytest.raises(DiskError, match="ENOENT"):
        load_json(str(tmp_path / "none"))
    with pytest.raises(DiskError, match="null"):
        load_json("a\0b")


def test_keys() -> None:
    check_keys({"a": 1, "b": 2}, ("a", "b"), where="x")
    with pytest.raises(FormatError, match="'b', 'c' missing"):
        check_keys({"a": 1}, ("a", "b", "c"), where="x")


@given(st.binary(max_size=200))
def test_any_bytes_give_an_object_or_a_format_error(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        assert isinstance(parse_json(data, where="x"), dict)


# ---------------------------------------------------------------- attributes
def test_attributes_become_json() -> None:
    given_ = {
        "text": "é", "none": None, "flag": np.True_, "int": np.int64(3), "small": np.int8(3), "half": np.float16(0.5),
        "array": np.arange(6).reshape(2, 3), "bytes": b"abc", "strings": np.array(["a", "b"]), "tuple": (1, 2),
        "objects": np.array(["a", b"c"], object), "nested": {"a": [np.float32(1)]}, "raw": np.array([b"x"]),
    }  # fmt: skip
    kept, notes = attributes.to_json(given_)
    assert json.loads(json.dumps(kept)) == {
        "text": "é", "none": None, "flag": True, "int": 3, "small": 3, "half": 0.5,
        "array": [[0, 1, 2], [3, 4, 5]], "bytes": "abc", "strings": ["a", "b"], "tuple": [1, 2],
        "objects": ["a", "c"], "nested": {"a": [1.0]}, "raw": ["x"],
    }  # fmt: skip
    (note,) = notes
    for name in ("small", "half", "array", "bytes", "strings", "tuple", "objects", "nested", "raw"):
        assert name in note
    for name in ("text", "none", "flag", " int"):
        assert name not in note.removesuffix(" became plain JSON numbers, text and lists")


def test_attributes_without_a_json_form_are_named() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    odd = {
        "complex": 1j, "when": np.datetime64("2020-01-01"), "bytes": b"\xff", "void": np.void(b"ab"),
        "record": np.zeros(2, [("a", "i4")]), "object": object(), "deep": deep, "text": "\ud800",
    }  # fmt: skip
    kept, notes = attributes.to_json({**odd, "good": 1})
    assert kept == {"good": 1}
    assert len(notes) == len(odd)
    assert all(any(repr(name) in note for note in notes) for name in odd)


def test_nan_and_infinity_stay() -> None:
    kept, notes = attributes.to_json({"a": math.nan, "b": -math.inf, "c": np.float64(math.inf)})
    back = parse_json(json.dumps(kept).encode(), where="x")
    assert math.isnan(back["a"])
    assert (back["b"], back["c"], notes) == (-math.inf, math.inf, [])


def test_attributes_twice_are_the_same() -> None:
    once, _ = attributes.to_json({"a": np.arange(3), "b": (1, b"x")})
    assert attributes.to_json(once) == (once, [])
