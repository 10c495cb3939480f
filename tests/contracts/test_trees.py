"""Every format that holds several arrays passes the contract, on local files and in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from reblock.errors import UsageError
from reblock.model.dataset import Tree
from reblock.storage.hdf5.format import FORMAT as HDF5
from reblock.storage.media.memory import MEMORY
from reblock.storage.netcdf.format import FORMAT as NETCDF
from reblock.storage.netcdf.format import FORMAT3 as NETCDF3
from reblock.storage.zarr.format import FORMAT as ZARR
from reblock.storage.zarr.format import FORMAT2 as ZARR2
from reblock.testing.trees import TreeContract

_NUMBERS = itertools.count()


class TestZarr(TreeContract):
    format = ZARR


class TestZarr2(TreeContract):
    format = ZARR2


class TestNetcdf(TreeContract):
    format = NETCDF


class Flat(TreeContract):
    """The contract for a format without groups."""

    def adapt(self, tree: Tree) -> Tree:
        try:
            return super().adapt(tree)
        except UsageError as error:
            pytest.skip(str(error))


class TestNetcdf3(Flat):
    format = NETCDF3


class TestHdf5(TreeContract):
    format = HDF5


class InMemory(TreeContract):
    """The contract on the medium in memory, which cannot rename."""

    medium = MEMORY

    @pytest.fixture
    def root(self) -> Iterator[str]:
        folder = f"memory://trees/{next(_NUMBERS)}"
        MEMORY.make_folder(folder)
        yield folder
        MEMORY.remove_folder(folder)


class TestZarrInMemory(InMemory):
    format = ZARR


class TestZarr2InMemory(InMemory):
    format = ZARR2
