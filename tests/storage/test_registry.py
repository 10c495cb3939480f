"""Formats are found by content, extension and name, ours and those of strangers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reblock.errors import DiskError, FormatError, UsageError
from reblock.model.schema import Schema
from reblock.model.store import Format
from reblock.storage import registry
from reblock.testing.arrays import in_byte_order, noise, same_bits
from reblock.testing.reference_io import read_array, write_array

AVAILABLE = []
for _name in registry.formats():
    try:
        registry.get(_name)
    except UsageError:
        continue
    if registry._table()[_name].database:
        continue  # not a format of files: tests/storage/postgres
    AVAILABLE.append(_name)


def make(path: Path, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    kind = registry.get(name)
    array = noise((9, 7), "<i4")
    store = kind.create(str(path), "", kind.adapt(Schema((9, 7), array.dtype, (4, 3)), ()))
    array = in_byte_order(array, store.layout.dtype)
    write_array(store, array)
    store.commit()
    return array


def test_names() -> None:
    assert registry.formats()[:4] == ("npy", "blocks", "rawblocks", "fileblocks")
    assert len(set(registry.formats())) == len(registry.formats())


@pytest.mark.parametrize("name", AVAILABLE)
def test_by_name(name: str) -> None:
    assert isinstance(registry.get(name), Format)
    assert registry.get(name).name == name


@pytest.mark.parametrize("name", [known.name for known in registry._OWN if known.name in AVAILABLE])
def test_the_table_says_what_the_formats_say(name: str) -> None:
    (known,) = (known for known in registry._OWN if known.name == name)
    # Several formats may share an ending; the table gives it to the one that is the default.
    assert set(known.suffixes or ()) <= set(registry.get(name).suffixes)


def test_a_pattern_of_files_names_the_options_for_it(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="a pattern of several files needs concat or stack"):
        registry.open(tmp_path / "a*.nc")
    with pytest.raises(DiskError) as plain:
        registry.open(tmp_path / "a.nc")
    assert "concat" not in str(plain.value)


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match=r"unknown format 'dicom': use one of npy, blocks,"):
        registry.get("dicom")


@pytest.mark.parametrize("name", AVAILABLE)
def test_content_counts_more_than_the_name(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "misleading.npy.h5")
    array = make(Path(path), name)
    store = registry.open(path)
    assert store.format == name
    assert same_bits(read_array(store), array)
    claimed = {other for other in AVAILABLE if registry.get(other).probe(path)}
    assert name in claimed
    # NetCDF-4 and MINC2 files are HDF5 files, which may be opened as such by request.
    claimed -= {"hdf5"} if name in ("minc", "netcdf") else set()
    # A format may open its elder sister's arrays, if it knows them for what they are.
    assert {registry.get(other).open(path, "").format for other in claimed} == {name}


def test_extension_counts_where_content_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"")
    assert registry.detect(str(tmp_path / "x.npy")).name == "npy"
    with pytest.raises(FormatError, match=r"not a \.npy file"):
        registry.open(str(tmp_path / "x.npy"))


def test_of_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(
        FormatError, match=r"x\.txt: a file of unknown format; .*with from_format: npy, blocks"
    ) as error:
        registry.open(str(tmp_path / "x.txt"))
    assert "\n" not in str(error.value)
    with pytest.raises(FormatError, match="a folder of unknown format"):
        registry.open(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="a pipe of unknown format"):
        registry.open(str(tmp_path / "pipe"))


def test_bare_blocks_are_told_what_is_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "0_0.npy", np.arange(3))
    with pytest.raises(FormatError, match=r"reblock\.json is missing"):
        registry.open(f"{tmp_path}/")


def test_a_format_given_by_name_is_not_doubted(tmp_path: Path) -> None:
    make(tmp_path / "b", "blocks")
    with pytest.raises(FormatError, match="expected a regular file, not a folder"):
        registry.open(tmp_path / "b", format="npy")


@pytest.mark.parametrize("format", [None, "npy", "blocks"])
def test_a_missing_path(tmp_path: Path, format: str | None) -> None:
    with pytest.raises(DiskError, match=r"nowhere\.npy: No such file.*ENOENT") as error:
        registry.open(tmp_path / "nowhere.npy", format=format)
    assert error.value.path == str(tmp_path / "nowhere.npy")


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    os.symlink(tmp_path / "nowhere", tmp_path / "x.npy")
    with pytest.raises(DiskError, match="ENOENT"):
        registry.open(tmp_path / "x.npy")


def test_a_link_that_people_made_themselves_is_followed(tmp_path: Path) -> None:
    array = make(tmp_path / "x.npy", "npy")
    os.symlink(tmp_path / "x.npy", tmp_path / "link")
    assert same_bits(read_array(registry.open(tmp_path / "link")), array)


def test_urls_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"ftp://host/x\.zarr: use a local path, s3://"):
        registry.open("ftp://host/x.zarr::t2m")


@pytest.mark.parametrize(
    ("path", "to", "name"),
    [
        ("x.npy", None, "npy"),
        ("X.NPY", None, "npy"),
        ("a/b/", None, "blocks"),
        ("x.npy/", None, "npy"),
        ("x.zarr/", None, "zarr"),
        ("x.zarr/", "blocks", "blocks"),
        ("x.npy", "blocks", "blocks"),
        ("anything", "rawblocks", "rawblocks"),
        ("x.zarr", None, "zarr"),
        ("x.zarr", "zarr2", "zarr2"),
        ("x.h5", None, "hdf5"),
        ("x.hdf5", None, "hdf5"),
    ],
)
def test_targets(path: str, to: str | None, name: str) -> None:
    if name not in AVAILABLE:
        pytest.skip(f"{name} is not there")
    assert registry.for_target(path, to).name == name


def test_a_target_of_no_known_ending() -> None:
    with pytest.raises(UsageError, match=r"x\.dat: .*\.npy \(npy\).*with to_format: npy, blocks"):
        registry.for_target("x.dat")
    with pytest.raises(UsageError, match="unknown format 'dicom'"):
        registry.for_target("x.npy", "dicom")


def test_importing_the_registry_imports_no_library() -> None:
    code = """
import sys
from reblock.storage import registry
registry.formats()
registry.for_target("x.npy"), registry.for_target("b/")
heavy = {"zarr", "h5py", "numcodecs", "fsspec", "reblock.storage.zarr", "reblock.storage.hdf5"}
print(*sorted(set(sys.modules) & heavy))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


# ---------------------------------------------------------------- strangers
MODULE = """
from dataclasses import dataclass
from reblock.storage.npy.format import NpyFormat

class Stranger(NpyFormat):
    name = "stranger"
    suffixes = (".npy.strange",)

    def probe(self, path):
        return path.endswith(".strange")

class Rude(NpyFormat):
    name = "rude"
    suffixes = (".rude",)

    def probe(self, path):
        raise RuntimeError("rude")

FORMAT, RUDE = Stranger(), Rude()
"""


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution that brings formats: two that work, one that lacks its library, one that is ours."""
    home = tmp_path / "site"
    metadata = home / "stranger-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[reblock.formats]\nrude = stranger_formats:RUDE\nstranger = stranger_formats:FORMAT\n"
        "lost = stranger_lost:FORMAT\nwrong = stranger_formats:NONE\nnpy = stranger_formats:FORMAT\n"
    )
    (home / "stranger_formats.py").write_text(MODULE)
    (home / "stranger_lost.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(str(home))
    return home


def test_strangers_are_found(strangers: Path, tmp_path: Path) -> None:
    assert {"stranger", "rude", "lost"} <= set(registry.formats())
    assert registry.get("stranger").name == "stranger"
    assert registry.get("npy").name == "npy", "nobody replaces ours"
    assert registry.for_target("x.npy.strange").name == "stranger"
    np.save(tmp_path / "x.npy", np.arange(3))
    os.rename(tmp_path / "x.npy", tmp_path / "x.strange")
    assert registry.detect(str(tmp_path / "x.strange")).name == "npy"
    (tmp_path / "y.strange").write_text("")
    assert registry.detect(str(tmp_path / "y.strange")).name == "stranger"


def test_a_missing_library_is_named(strangers: Path) -> None:
    with pytest.raises(UsageError, match=r"format lost needs the module no_such_library.*package stranger"):
        registry.get("lost")
    with pytest.raises(UsageError, match=r"format wrong cannot be loaded.*NONE.*package stranger"):
        registry.get("wrong")


def test_strangers_who_fail_do_not_hide_others(strangers: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(FormatError, match=r"unknown format.*rude.*no_such_library"):
        registry.open(tmp_path / "x.txt")
    with pytest.raises(UsageError, match=r"x\.dat"):
        registry.for_target("x.dat")


@pytest.mark.parametrize(("name", "library"), [("hdf5", "h5py"), ("zarr", "numcodecs"), ("zarr2", "numcodecs")])
def test_a_library_of_ours_that_is_missing_comes_with_a_hint(tmp_path: Path, name: str, library: str) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    code = f"""
import sys
sys.modules[{library!r}] = None
from reblock.storage import registry
from reblock.errors import UsageError
registry.open(sys.argv[1])
try:
    registry.get({name!r})
except UsageError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "x.npy")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"format {name} needs the module {library}" in result.stdout
    assert "pip install" in result.stdout
