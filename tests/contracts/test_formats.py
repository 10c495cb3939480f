"""Every format of our own passes the contract that outside authors run on theirs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from reblock.errors import UsageError
from reblock.model.schema import Schema
from reblock.model.store import Format
from reblock.storage import registry
from reblock.storage.media.memory import MEMORY
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


class TestFileBlocks(ByName):
    name = "fileblocks"


class TestRawFileBlocks(ByName):
    name = "fileblocks:raw:block {index}.raw"


@pytest.mark.faults  # like another class here, and slow
class TestHdf5FileBlocks(ByName):
    name = "fileblocks:hdf5"


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


class TestMinc(ByName):
    name = "minc"


class TestNifti(ByName):
    name = "nifti"


class TestNiftiGz(ByName):
    name = "nifti_gz"


class TestTiff(ByName):
    name = "tiff"
    codecs = (*ByName.codecs, "lzw", "rle", "lzma", "predictor+zlib:4", "predictor+lzw")


class TestOmeTiff(ByName):
    name = "ometiff"


class TestNetcdf(ByName):
    name = "netcdf"


@pytest.mark.faults  # like another class here, and slow
class TestNetcdfInner(ByName):
    name = "netcdf"
    inner = "group/array"


class TestNetcdf3(ByName):
    name = "netcdf3"


class TestNetcdf3Inner(ByName):
    name = "netcdf3"
    inner = "array"


class InMemory(ByName):
    """The same on the medium in memory."""

    medium = MEMORY
    _numbers = itertools.count()

    @pytest.fixture
    def root(self) -> Iterator[str]:
        folder = f"memory://formats/{next(self._numbers)}"
        MEMORY.make_folder(folder)
        yield folder
        MEMORY.remove_folder(folder)


class TestNpyInMemory(InMemory):
    name = "npy"


class TestBlocksInMemory(InMemory):
    name = "blocks"


class TestRawBlocksInMemory(InMemory):
    name = "rawblocks"


class TestFileBlocksInMemory(InMemory):
    name = "fileblocks"


class TestNetcdf3InMemory(InMemory):
    name = "netcdf3"


class TestNiftiInMemory(InMemory):
    name = "nifti"


class TestNiftiGzInMemory(InMemory):
    name = "nifti_gz"


class TestZarrInMemory(InMemory):
    name = "zarr"


class TestZarr2InMemory(InMemory):
    name = "zarr2"


class TestZarrInnerInMemory(InMemory):
    name = "zarr"
    inner = "group/array"


class TestTiffInMemory(InMemory):
    name = "tiff"


class TestOmeTiffInMemory(InMemory):
    name = "ometiff"


def test_every_format_is_tested() -> None:
    # That of the database is tested with a server, in tests/storage/postgres.
    own = {known.name for known in registry._OWN} - {"postgres"}
    assert own <= {test.name for test in ByName.__subclasses__()}
    assert own - {"hdf5", "minc", "netcdf"} == {test.name for test in InMemory.__subclasses__()}


def test_hdf5_says_that_it_writes_local_files_only() -> None:
    kind = registry.get("hdf5")
    schema = kind.adapt(Schema((4,), np.dtype("<i4"), (2,)), ())
    calls = (
        lambda: kind.create("memory://formats/x.h5", "", schema, medium=MEMORY),
        lambda: kind.reopen("memory://formats/x.h5", "", schema, medium=MEMORY),
        lambda: kind.foresee("memory://formats/x.h5", "", schema, medium=MEMORY),
    )
    MEMORY.write("memory://formats/x.h5", [b"\x89HDF\r\n\x1a\n" + bytes(100)])
    try:
        for call in calls:
            with pytest.raises(UsageError, match=r"x\.h5: HDF5 needs a local file, .* memory"):
                call()
    finally:
        MEMORY.remove("memory://formats/x.h5")
