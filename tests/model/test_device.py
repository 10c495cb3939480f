"""Devices from files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reblock.cost import PRESETS
from reblock.errors import UsageError
from reblock.model import Device


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_round_trip(name: str) -> None:
    assert Device.from_json(json.loads(json.dumps(PRESETS[name].to_json()))) == PRESETS[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 0}, "above 0"),
        ({"read_bytes_per_second": 0}, "above 0"),
        ({"seek_seconds": -1}, "seek_seconds must be a number of at least 0, not -1"),
        ({"seek_seconds": "fast"}, "seek_seconds"),
        ({"seek_seconds": True}, "seek_seconds"),
        ({"seek_seconds": float("nan")}, "seek_seconds"),
        ({"decode_bytes_per_second": {"gzip": -1}}, "decode_bytes_per_second"),
        ({"decode_bytes_per_second": {"gzip": 0}}, "rates above 0"),
        ({"encode_bytes_per_second": 5}, "an object of rates"),
        ({"colour": "red"}, "a device file is a JSON object with"),
    ],
)
def test_nonsense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Device.from_json({**PRESETS["ssd"].to_json(), **change})


@pytest.mark.parametrize("value", [3, [], "ssd", {}, {"name": "x"}])
def test_not_a_device(value: Any) -> None:
    with pytest.raises(UsageError, match="device file"):
        Device.from_json(value)
