"""Casting: which elements survive in another type, against exact arithmetic."""

from __future__ import annotations

import math
import pickle
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from reblock.engine.casting import convert, fits, is_convertible, rule_of
from reblock.errors import MisfitError

NUMBERS = [
    "?",
    "i1",
    "u1",
    "<i2",
    ">u2",
    "i4",
    ">u4",
    "<i8",
    ">i8",
    "u8",
    "f2",
    ">f4",
    "f4",
    "f8",
    "g",
    "c8",
    ">c16",
    "G",
]


def _survives(value: Any, after: np.dtype[Any]) -> bool:
    """The rule in words of whole numbers and fractions."""
    real, imaginary = (value.real, value.imag) if isinstance(value, np.complexfloating) else (value, 0)
    whole = isinstance(value, np.integer | np.bool_)
    if after.kind == "c":
        part = np.zeros(0, after).real.dtype
        return _survives(real, part) and _survives(np.asarray(imaginary)[()], part)
    if imaginary != 0:
        return False
    if after.kind == "f" and not whole:
        with np.errstate(all="ignore"):
            return not np.isfinite(real) or bool(np.isfinite(np.asarray(real).astype(after)))
    if not np.isfinite(real):
        return False
    exact = Fraction(int(real)) if whole else Fraction(*real.as_integer_ratio())
    if after.kind == "b":
        return exact in (0, 1)
    if after.kind in "iu":
        return exact.denominator == 1 and np.iinfo(after).min <= exact <= np.iinfo(after).max
    digits = np.finfo(after).nmant + 1
    size = abs(exact.numerator)
    shifted = size >> max(size.bit_length() - digits, 0) << max(size.bit_length() - digits, 0)
    limit = Fraction(*np.finfo(after).max.as_integer_ratio())
    return shifted == size and size <= limit


EDGES = [0, 1, -1, 0.5, 127, 128, 255, 256, 300, -129, 65504, 65519, 65520, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1]
EDGES += [2**63, 2**64 - 1, 2.0**64, 1e39, -1e39, 1e-46, math.nan, math.inf, -math.inf, -0.0, 2**62 + 1, -(2**63)]


@pytest.mark.parametrize("before", NUMBERS)
def test_edges(before: str) -> None:
    kind = np.dtype(before)
    values = []
    for edge in EDGES:
        with np.errstate(all="ignore"):
            try:
                values.append(np.array([edge]).astype(kind)[0])
            except OverflowError:
                continue
    if kind.kind == "c":
        with np.errstate(all="ignore"):
            values += [kind.type(complex(1, part)) for part in (1e-40, math.nan, 1e300, math.inf)]
            values.append(kind.type(complex(1e300, math.inf)))
    for name in NUMBERS:
        after = np.dtype(name)
        for value in values:
            found = fits(np.array([value], kind), after)
            assert found == _survives(value, after), f"{value!r} of {kind} as {after}"


@given(st.data())
def test_random(data: st.DataObject) -> None:
    before, after = (np.dtype(data.draw(st.sampled_from(NUMBERS))) for _ in range(2))
    if before.char in "gG":
        before = np.dtype("f8")
    array = data.draw(npst.arrays(before, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)))
    made = np.empty(array.shape, after)
    wrong = [index for index in np.ndindex(array.shape) if not _survives(array[index], after)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if wrong:
            with pytest.raises(MisfitError) as caught:
                convert(array, made, checked=True, origin=(10,) * array.ndim)
            assert caught.value.index == tuple(i + 10 for i in wrong[0])
        else:
            convert(array, made, checked=True)
        convert(array, made, checked=False)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = array.astype(after)
    if before.kind in "fc" and after.kind in "iu":
        # What a number out of range becomes is undefined, and differs between the loops of numpy.
        for index in wrong:
            made[index] = theirs[index]
    np.testing.assert_array_equal(made, theirs)


def test_first_misfit_of_a_large_array_in_pieces() -> None:
    array = np.zeros((7, 300, 211), "i4")
    array[3, 17, 200] = array[3, 18, 0] = array[6] = 300
    with pytest.raises(MisfitError, match=r"300, which uint8 .* cannot hold") as caught:
        convert(array, np.empty(array.shape, "u1"), checked=True)
    assert caught.value.index == (3, 17, 200)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.index, again.value, str(again)) == ((3, 17, 200), 300, str(caught.value))


@pytest.mark.parametrize(
    ("values", "after", "wrong"),
    [
        (np.array(["ab", "abc"]), "U2", 1),
        (np.array([b"ab", b"abc"]), "S2", 1),
        (np.array(["ab", "ä"]), "S2", 1),
        (np.array([b"ab", b"\xff"]), "U2", 1),
        (np.array(["ab", "c"]), "S2", None),
        (np.array(["2020-01-01T00", "NaT", "2020-01-01T01"], "M8[h]"), "M8[D]", 2),
        (np.array(["2020-01-01", "9999-01-01"], "M8[D]"), "M8[ns]", 1),
        (np.array([3600, 5400], "m8[s]"), ">m8[h]", 1),
        (np.array(["1970-01-01", "2020-01-01"], ">M8[D]"), "i2", None),
        (np.array(["1970-01-01", "2120-01-01"], ">M8[D]"), "i2", 1),
        (np.array([5, 2**63], "u8"), "M8[s]", 1),
    ],
)
def test_text_and_dates(values: np.ndarray[Any, Any], after: str, wrong: int | None) -> None:
    assert is_convertible(values.dtype, np.dtype(after))
    assert [fits(value, np.dtype(after)) for value in values.reshape(-1, 1)] == [
        number != wrong for number in range(values.size)
    ]


@pytest.mark.parametrize("pair", [("S3", "i2"), ("f8", "U3"), ("M8[s]", "f8"), ("V3", "u1"), ("m8[s]", "M8[s]")])
def test_types_without_common_values(pair: tuple[str, str]) -> None:
    assert not is_convertible(*map(np.dtype, pair))


def test_nothing_is_checked_if_everything_fits() -> None:
    assert rule_of(np.dtype("u1"), np.dtype(">i2")) is None
    assert rule_of(np.dtype("i4"), np.dtype("f8")) is None
    assert rule_of(np.dtype("f4"), np.dtype("c8")) is None
    assert rule_of(np.dtype("S3"), np.dtype("S4")) is None
    assert rule_of(np.dtype("i8"), np.dtype("f8")) is not None
