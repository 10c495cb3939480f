"""Formats without codecs and shards: they refuse what was requested, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from reblock.errors import UsageError
from reblock.model import Codec, Schema
from reblock.storage import registry

SCHEMA = Schema((8, 8), np.dtype("<f4"), (4, 4), shards=(8, 8), codec=Codec.parse("zstd:1"))


@pytest.mark.parametrize("name", ["npy", "blocks", "netcdf3"])
@pytest.mark.parametrize(
    ("asked", "said"),
    [("codec", "codec zstd:1 is not possible; try "), ("shards", "shards 8,8 are not possible; try ")],
)
def test_what_was_requested_is_refused(name: str, asked: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        registry.get(name).adapt(SCHEMA, {asked})


@pytest.mark.parametrize("name", ["npy", "blocks", "netcdf3"])
def test_what_came_with_the_source_is_left_out(name: str) -> None:
    found = registry.get(name).adapt(SCHEMA, ())
    assert not found.codec
    assert found.shards is None
    assert any("zstd:1" in note for note in found.notes)
