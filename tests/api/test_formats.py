"""`reblock.formats`: what it says of a format is what the format does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import reblock
from reblock.cli.application import application
from reblock.render.formats import formats as as_text
from reblock.storage import registry


def test_every_format_is_there() -> None:
    told = {one.name: one for one in reblock.formats()}
    assert list(told) == list(registry.formats())
    assert told["zarr"].datasets
    assert not told["npy"].datasets
    assert "shards" in told["zarr"].keeps
    assert "attributes" in told["hdf5"].keeps
    assert "attributes" in told["netcdf"].keeps
    assert told["npy"].keeps == ()
    assert not told["hdf5"].local
    assert not told["zarr"].local


@pytest.mark.parametrize("name", ["npy", "blocks", "zarr", "hdf5", "nifti"])
def test_what_is_kept_is_kept(tmp_path: Path, name: str) -> None:
    told = {one.name: one for one in reblock.formats()}[name]
    source = np.arange(64, dtype="i2").reshape(4, 16)
    reblock.repartition(source, str(tmp_path / "a.zarr"), chunks=(2, 16), codec="gzip:1")
    made = str(tmp_path / "b")
    reblock.repartition(str(tmp_path / "a.zarr"), made, to_format=name)
    found = reblock.open(made, format=name)
    assert (found.chunks == (2, 16)) == ("chunks" in told.keeps)
    assert bool(found.store.schema.codec) == ("codec" in told.keeps)
    assert (found.store.schema.fill_value is not None) == ("fill value" in told.keeps)


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = registry.find_spec

    def find(name: str) -> Any:
        return None if name == "nibabel" else real(name)

    monkeypatch.setattr(registry, "find_spec", find)
    told = {one.name: one for one in reblock.formats()}["nifti"]
    assert "pip install 'reblock[neuro]'" in told.missing
    assert told.suffixes == (".nii",)
    shown = CliRunner().invoke(application, ["formats"]).stdout
    assert "not installed\n" in shown
    assert "nibabel" in shown.partition("not installed")[2]


def test_the_command_lists_them() -> None:
    document = json.loads(CliRunner().invoke(application, ["formats", "--json"]).stdout)
    assert [one["name"] for one in document["formats"]] == list(registry.formats())
    shown = CliRunner().invoke(application, ["formats"]).stdout
    assert all(name in shown for name in registry.formats())
    assert max(map(len, shown.splitlines())) <= 120


def test_a_format_that_begins_anew_is_told() -> None:
    documents = [{**one.to_json(), "resumes": one.name != "npy"} for one in reblock.formats()]
    shown = as_text(documents)
    assert "not continued after a kill, but made again" in " ".join(shown.partition("blocks")[0].split())
    assert "Targets of all formats" not in shown
