"""The source is never written: not through scratch, links, other names, or files that it names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(400, dtype="i4").reshape(20, 20))
    reblock.repartition("x.npy", "s.zarr", chunks="5,5", codec="none")
    return tmp_path


def _chunk_link() -> None:
    Path("data").mkdir()
    os.rename("s.zarr/c/0/0", "data/chunk.npy")
    os.symlink(os.path.abspath("data/chunk.npy"), "s.zarr/c/0/0")


def _folder_link() -> None:
    Path("data").mkdir()
    os.rename("s.zarr/c/0", "data/row")
    os.symlink(os.path.abspath("data/row"), "s.zarr/c/0")


def _link_to_links() -> None:
    _folder_link()
    Path("more").mkdir()
    os.rename("data/row/1", "more/chunk.npy")
    os.symlink(os.path.abspath("more/chunk.npy"), "data/row/1")


def _external() -> None:
    Path("data").mkdir()
    np.arange(400, dtype="i4").tofile("data/raw.npy")
    with h5py.File("s.h5", "w") as file:
        file.create_dataset("d", (20, 20), "i4", external=[("data/raw.npy", 0, 1600)])


def _virtual() -> None:
    Path("data").mkdir()
    with h5py.File("data/part.h5", "w") as file:
        file["p"] = np.arange(400, dtype="i4").reshape(20, 20)
    layout = h5py.VirtualLayout((20, 20), "i4")
    layout[...] = h5py.VirtualSource("data/part.h5", "p", shape=(20, 20))
    with h5py.File("s.h5", "w") as file:
        file.create_virtual_dataset("d", layout)


def _external_link() -> None:
    Path("data").mkdir()
    with h5py.File("data/part.h5", "w") as file:
        file["p"] = np.arange(400, dtype="i4").reshape(20, 20)
    with h5py.File("s.h5", "w") as file:
        file["d"] = h5py.ExternalLink("data/part.h5", "p")


def _hard_link() -> None:
    os.link("x.npy", "y.npy")


#: What is there, the source, the target and options.
OVERLAPS: dict[str, tuple[Callable[[], None] | None, str, str, dict[str, Any]]] = {
    "scratch in the source": (None, "s.zarr", "y.zarr", {"scratch": "s.zarr"}),
    "scratch deep in the source": (None, "s.zarr", "y.zarr", {"scratch": "s.zarr/c/0"}),
    "target in the source": (None, "s.zarr", "s.zarr/c/y.npy", {}),
    "a chunk's link leads to the target": (_chunk_link, "s.zarr", "data/chunk.npy", {"allow_external": ["data"]}),
    "a chunk's link leads into the target": (
        _chunk_link,
        "s.zarr",
        "data",
        {"allow_external": ["."], "to_format": "npy"},
    ),
    "a folder's link leads around the target": (_folder_link, "s.zarr", "data/row/7.npy", {"allow_external": ["data"]}),
    "scratch where a link leads": (
        _folder_link,
        "s.zarr",
        "y.zarr",
        {"scratch": "data/row", "allow_external": ["data"]},
    ),
    "a link behind a link": (_link_to_links, "s.zarr", "more/chunk.npy", {"allow_external": ["data", "more"]}),
    "elements in another file": (_external, "s.h5", "data/raw.npy", {"allow_external": ["data"]}),
    "a virtual dataset": (_virtual, "s.h5", "data/part.h5", {"allow_external": ["data"]}),
    "a link to another file": (_external_link, "s.h5::d", "data/part.h5", {"allow_external": ["data"]}),
    "a hard link": (_hard_link, "x.npy", "y.npy", {}),
}


def _seen() -> dict[str, bytes | str]:
    files = [Path(base) / name for base, _, names in os.walk(".") for name in names]
    return {str(path): os.readlink(path) if path.is_symlink() else path.read_bytes() for path in files}


@pytest.mark.parametrize("case", OVERLAPS)
def test_the_source_is_not_written(case: str) -> None:
    prepare, source, target, options = OVERLAPS[case]
    if prepare is not None:
        prepare()
    before = _seen()
    for overwrite in (True, False):
        with pytest.raises(UsageError, match="overlap"):
            reblock.repartition(source, target, overwrite=overwrite, **options)
    assert _seen() == before


def test_an_allowed_folder_may_hold_the_target() -> None:
    """Only what links lead to is the source's, not all that is allowed."""
    _chunk_link()
    reblock.repartition("s.zarr", "data/y.npy", allow_external=["data"], scratch="data")
    assert np.array_equal(reblock.open("data/y.npy")[...], np.load("x.npy"))


def test_the_array_that_another_run_builds_is_no_source() -> None:
    os.rename("s.zarr", ".y.zarr.reblock")
    os.mkdir("y")
    os.rename(".y.zarr.reblock", "y/array")
    os.rename("y", ".y.zarr.reblock")
    with pytest.raises(UsageError, match="overlap"):
        reblock.repartition(".y.zarr.reblock/array", "y.zarr")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_folder_that_is_mounted_twice_is_one(here: Path) -> None:
    Path("again").mkdir()
    if subprocess.call(["mount", "--bind", str(here / "s.zarr"), "again"], stderr=subprocess.DEVNULL):
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(UsageError, match="overlap"):
            reblock.repartition("s.zarr", "again/c/y.npy")
        with pytest.raises(UsageError, match="overlap"):
            reblock.repartition("s.zarr", "y.npy", scratch="again/c")
    finally:
        subprocess.check_call(["umount", "again"])
