"""Every format of our own passes the contract that outside authors run on theirs."""

from __future__ import annotations

import pytest

from reblock.errors import UsageError
from reblock.model.store import Format
from reblock.storage import registry
from reblock.testing.contract import FormatContract


class ByName(FormatContract):
    """The contract for a format of the registry, skipped where its library is not installed."""

    name = ""

    def make_format(self) -> Format:
        try:
            return registry.get(self.name)
        except UsageError as error:
            pytest.skip(str(error))


class TestNpy(ByName):
    name = "npy"


class TestBlocks(ByName):
    name = "blocks"


class TestRawBlocks(ByName):
    name = "rawblocks"


class TestZarr(ByName):
    name = "zarr"


class TestZarr2(ByName):
    name = "zarr2"


class TestZarrInner(ByName):
    name = "zarr"
    inner = "group/array"


class TestHdf5(ByName):
    name = "hdf5"


class TestHdf5Inner(ByName):
    name = "hdf5"
    inner = "group/array"


def test_every_format_is_tested() -> None:
    tested = {test.name for test in ByName.__subclasses__()}
    assert {known.name for known in registry._OWN} <= tested
