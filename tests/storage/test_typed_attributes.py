"""Attributes through JSON and back, with their types."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reblock.storage.typed_attributes import decode_attributes, encode_attributes


@pytest.mark.parametrize("text", [b"abc\0", b"ab\0\0", b"\0", b"", "ä\0".encode(), np.bytes_(b"x\0"), b"plain"])
def test_zeros_at_the_end_of_text_are_kept_beside_it(text: bytes) -> None:
    encoded = encode_attributes({"a": text}, netcdf=True)
    stored = json.loads(json.dumps([encoded.values, encoded.types]))
    assert stored[0]["a"] == (bytes(text).decode().rstrip("\0") or bytes(text).decode())
    assert bytes(decode_attributes(*stored)["a"]) == bytes(text)
    assert not encoded.notes


@pytest.mark.parametrize("zeros", [1, -1, 10**9, "x", None, [1]])
def test_a_count_of_zeros_that_does_not_fit_is_ignored(zeros: object) -> None:
    found = decode_attributes({"a": "ab"}, {"a": {"dtype": "|S9", "zeros": zeros}})
    assert bytes(found["a"]) == b"ab"
