"""The choice of how a pass is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.engine import View, execute, native
from reblock.engine.pipeline import execute as executing
from reblock.engine.pipeline.readers.choose import choose_reading
from reblock.engine.pipeline.readers.compiled import CompiledReading
from reblock.engine.pipeline.readers.library import LibraryReading
from reblock.engine.pipeline.readers.python import PythonReading
from reblock.storage import registry
from reblock.testing.recording import RecordingMedium

needs_loop = pytest.mark.skipif(native.library() is None, reason="the compiled loop was not built")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The kinds of reading that runs have chosen."""
    kinds: list[type] = []

    def choose(*arguments: Any, **named: Any) -> Any:
        reading = choose_reading(*arguments, **named)
        kinds.append(type(reading))
        return reading

    monkeypatch.setattr(executing, "choose_reading", choose)
    return kinds


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    array = np.arange(64 * 200, dtype="i4").reshape(64, 200)
    np.save("x.npy", array)
    return array


@needs_loop
@pytest.mark.parametrize("options", [{"codec": "none"}, {"codec": "gzip:1"}, {"shards": "64,200"}])
def test_units_of_local_files_are_read_by_the_compiled_loop(options: dict[str, Any], chosen: list[type]) -> None:
    reblock.repartition("x.npy", "x.zarr", chunks="8,50", **options)
    reblock.repartition("x.zarr", "y.npy")
    assert chosen[-1] is CompiledReading


@pytest.mark.parametrize("why", ["type", "no library", "large object"])
def test_everything_else_is_read_in_python(why: str, chosen: list[type], monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "large object":
        np.save("x.npy", np.zeros((3000, 1000), "u2"))
    if why == "no library":
        monkeypatch.setattr(native, "library", lambda: None)
    reblock.repartition("x.npy", "y.zarr", chunks=(-1, -1), **({"dtype": "f8"} if why == "type" else {}))
    assert chosen == [PythonReading]


def test_another_medium_is_read_in_python(chosen: list[type]) -> None:
    reblock.repartition("x.npy", "x.zarr", chunks="8,50")
    chosen.clear()
    job = reblock.plan("x.zarr", "y.npy")
    view = View.whole(RecordingMedium().of(registry.open("x.zarr")))
    target = job.format.create("made.npy", "", job.schema)
    execute(job.plan.passes[0], view, target)
    target.commit()
    assert chosen == [PythonReading]
    assert np.array_equal(np.load("made.npy"), np.load("x.npy"))


def test_a_library_reads_what_only_it_can(chosen: list[type]) -> None:
    """Integers of 24 bits in four bytes."""
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(24)
    with h5py.File("y.h5", "w") as file:
        h5py.h5d.create(file.id, b"d", kind, h5py.h5s.create_simple((64, 200)))
    reblock.repartition("y.h5", "y.npy")
    assert chosen == [LibraryReading]
