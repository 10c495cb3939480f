"""Codec between text and stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import UsageError
from reblock.model import Codec, Stage

known = st.sampled_from(
    [
        *("gzip:0", "gzip:9", "zlib:1", "zstd:-7", "zstd:22", "lz4:1", "bz2:9", "lzma", "lzf", "shuffle", "crc32c"),
        *("fletcher32", "blosc:zstd:5:shuffle", "blosc:lz4:0:bitshuffle", "blosc:blosclz:9:noshuffle"),
    ]
)
values = st.one_of(st.integers(-5, 5), st.booleans(), st.none(), st.text(max_size=3), st.floats(-2, 2))
names = st.sampled_from(["delta", "fixedscaleoffset", "pcodec", "gzip", "blosc", "name", "cls"])
stages = st.builds(
    lambda name, settings: Stage.of(name, **settings), names, st.dictionaries(st.text(min_size=1, max_size=4), values)
).filter(lambda stage: "id" not in dict(stage.settings))


@given(st.lists(known, min_size=1, max_size=4))
def test_short_text(parts: list[str]) -> None:
    text = "+".join(parts)
    codec = Codec.parse(text)
    assert str(codec) == text
    assert codec.names == tuple(part.split(":")[0] for part in parts)
    assert Codec.parse(str(codec)) == codec
    assert codec


@given(st.lists(st.one_of(stages, known.map(lambda text: Codec.parse(text).stages[0])), max_size=4))
def test_any_stages(parts: list[Stage]) -> None:
    """Settings without a place in the short text go through JSON and come back."""
    codec = Codec(tuple(parts))
    assert Codec.parse(str(codec)) == codec


@pytest.mark.parametrize("text", ["none", "raw", "", "  none "])
def test_none(text: str) -> None:
    assert Codec.parse(text) == Codec()
    assert not Codec.parse(text)
    assert str(Codec.parse(text)) == "none"


def test_defaults() -> None:
    assert str(Codec.parse("gzip")) == "gzip:4"
    assert str(Codec.parse("blosc")) == "blosc:zstd:3:shuffle"
    assert str(Codec.parse("blosc:lz4")) == "blosc:lz4:3:shuffle"
    assert str(Codec.parse(" shuffle + gzip:1 ")) == "shuffle+gzip:1"
    assert str(Codec.parse('{"id": "zstd", "level": 7}')) == "zstd:7"
    assert str(Codec.parse('[{"id": "shuffle"}, {"id": "gzip"}]')) == "shuffle+gzip:4"
    assert Codec.parse("zstd:7").stages[0].get("level") == 7
    assert Codec.parse("zstd:7").stages[0].get("other", 1) == 1


def test_settings_may_have_any_name() -> None:
    stage = Codec.parse('{"id": "mine", "name": "x", "cls": 1}').stages[0]
    assert stage.settings == (("cls", 1), ("name", "x"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zip", "unknown codec 'zip'.*use none or one of blosc"),
        ("gzip+", "unknown codec ''"),
        ("GZIP", "unknown codec"),
        ("gzip:10", "integer from 0 to 9, not '10'"),
        ("gzip:", "integer from 0 to 9, not ''"),
        ("gzip:x", "integer from 0 to 9, not 'x'"),
        ("zstd:-8", "from -7 to 22"),
        ("gzip:1:2", "too many settings.*the form is gzip:LEVEL"),
        ("lzf:1", "too many settings"),
        ("blosc:gzip", "blosc cname must be one of"),
        ("blosc:zstd:3:maybe", "blosc shuffle must be one of"),
        ("{", "not valid JSON"),
        ("[]x", "not valid JSON"),
        ('{"level": 3}', 'an object with "id"'),
        ('["gzip"]', 'an object with "id"'),
        ('{"id": 3}', 'an object with "id"'),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Codec.parse(text)


def test_levels_above_zstds_highest_are_that() -> None:
    for text in ("zstd:23", "zstd:100", '{"id": "zstd", "level": 9999}'):
        assert str(Codec.parse(text)) == "zstd:22"
