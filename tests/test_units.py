"""Sizes and durations between text and numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import UsageError
from reblock.units import exact_size, format_count, format_seconds, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (1024, 1024),
        ("0 B", 0),
        ("123", 123),
        ("123b", 123),
        ("1k", 1000),
        ("1KB", 1000),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("1Ki", 1024),
        ("512MiB", 512 * 2**20),
        (" 4 GB ", 4 * 10**9),
        ("1.5GiB", 3 * 2**29),
        (".5k", 500),
        ("2T", 2 * 10**12),
        ("1PiB", 2**50),
        ("0.1KB", 100),
        ("1.0015KB", 1001),
    ],
)
def test_parse(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GB", "1XB", "-1", "1e9", "1 2", "0x10", "1,5GB", "1GBB", "٣", "nan", "inf", "1.GB", "9" * 400, -7, True],
)
def test_nonsense(text: str | int) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


def test_largest() -> None:
    assert parse_size(2**63 - 1) == parse_size(str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(UsageError, match="between 0 and 8 EiB"):
        parse_size(2**63)


@given(st.integers(0, 2**60))
def test_what_is_printed_can_be_typed(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.006)


@given(st.integers(0, 2**62))
def test_printed_is_short(size: int) -> None:
    number, unit = format_size(size).split()
    assert float(number) <= 1024
    assert len(number) <= 5
    assert unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (10 * 1024, "10.0 KiB"),
        (100 * 2**20, "100 MiB"),
        (2**30 - 1, "1.00 GiB"),
        (4 * 10**9, "3.73 GiB"),
        (2**60, "1.00 EiB"),
    ],
)
def test_format(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (25e-6, "25 µs"),
        (0.25, "250 ms"),
        (2.5, "2.5 s"),
        (119.96, "120.0 s"),
        (125, "2 min 5 s"),
        (7200, "2 h 0 min"),
        (86400 * 3, "3.0 days"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_count() -> None:
    assert format_count(1234567) == "1,234,567"


@given(st.integers(0, 1 << 60))
def test_an_exact_size_is_not_rounded(size: int) -> None:
    assert parse_size(exact_size(size)) == size


def test_an_exact_size_has_the_largest_unit() -> None:
    assert [exact_size(size) for size in (4 << 30, 1536 << 20, 96 << 10, 1000)] == ["4GiB", "1536MiB", "96KiB", "1000"]
