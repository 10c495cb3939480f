"""Graphs with buffers give the same results, in memory, and read each buffer once."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr

import reblock.dask
from dask_arrays import mapped
from reblock.dask.memory import MEMORY
from reblock.errors import UsageError

#: About half of the array of these tests.
MEMORY_LIMIT = "200KiB"

GRAPHS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: x + 1,
    "slices": lambda x: x[3:50, 7, ::-1],
    "steps": lambda x: x[::2, 1::3],
    "fancy": lambda x: x[[5, 3, 50]][:, [1, 2, 40]],
    "mask": lambda x: x[x[:, 0, 0] > 500],
    "sum": lambda x: x.sum(dtype="i8"),
    "sum of an axis": lambda x: x.sum(axis=0, dtype="i8"),
    "std": lambda x: x.std(axis=(1, 2)),
    "transpose": lambda x: x + x.T,
    "reversed": lambda x: (x + x[::-1]).max(axis=0),
    "rechunk": lambda x: x.rechunk((60, 10, 10)).cumsum(axis=0),
    "overlap": lambda x: da.map_overlap(lambda b: b, x, depth=2, boundary="reflect", dtype="u2"),
    "reshape": lambda x: x.reshape(-1, 60)[::7],
    "twice": lambda x: da.stack([x, x * 2]),
}


@pytest.mark.parametrize("strategy", ["auto", "keep"])
@pytest.mark.parametrize("name", GRAPHS)
def test_results_are_the_same(name: str, strategy: str, dataset: Any) -> None:
    made = GRAPHS[name](da.from_array(dataset, chunks=(20, 15, 12)))
    expected = made.compute()
    with reblock.dask.io(memory=MEMORY_LIMIT, strategy=strategy) as report:
        found = made.compute()
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert report.graphs == 1
    assert not report.notes or name in ("steps", "fancy")
    assert report.counted["peak_bytes"] <= 200 << 10
    assert MEMORY.used == 0
    if strategy == "auto" and name not in ("steps", "fancy", "mask", "slices"):
        assert report.counted["buffers"] == report.arrays[0]["buffers"] > 1
        assert report.counted["direct"] == 0
        fewer = 2 if name in ("rechunk", "overlap") else 10
        plain, planned = (report.arrays[0][side]["seeks"] for side in ("plain", "buffered"))
        assert report.counted["seeks"] == planned < plain / fewer


def test_the_graph_has_few_more_nodes(dataset: Any) -> None:
    made = da.from_array(dataset, chunks=10) + 1
    plain = da.optimization.optimize(made.__dask_graph__(), made.__dask_keys__())
    (buffered,) = reblock.dask.optimize(made, memory=MEMORY_LIMIT)
    buffers = reblock.dask.explain(made, memory=MEMORY_LIMIT).arrays[0]["buffers"]
    assert buffers > 1
    assert len(buffered.dask) - len(plain) <= 2 * buffers


def test_a_graph_that_gains_nothing_is_left_to_dask(tmp_path: Path, volume: np.ndarray[Any, Any]) -> None:
    chunked = zarr.create_array(tmp_path / "v.zarr", data=volume, chunks=(20, 20, 20))
    made = da.from_array(chunked, chunks=20) + 1
    plain = da.optimization.optimize(made.__dask_graph__(), made.__dask_keys__())
    found = reblock.dask.optimize_graph(made.__dask_graph__(), made.__dask_keys__(), memory="1GiB")
    assert set(found) == set(plain)


def test_memory_is_shared_by_several_arrays(tmp_path: Path, volume: np.ndarray[Any, Any]) -> None:
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = volume, volume[::-1]
    with h5py.File(tmp_path / "two.h5") as file:
        a, b = (da.from_array(file[name], chunks=12) for name in "ab")
        with reblock.dask.io(memory="200KiB") as report:
            found = (a + b).compute()
    np.testing.assert_array_equal(found, volume + volume[::-1])
    assert report.counted["direct"] == 0
    assert 0 < report.counted["peak_bytes"] <= 200 << 10


def test_where_memory_is_short_pieces_are_read_directly(dataset: Any, volume: np.ndarray[Any, Any]) -> None:
    made = da.from_array(dataset, chunks=20) + 1
    MEMORY.add(1 << 40)
    try:
        with reblock.dask.io(memory=MEMORY_LIMIT) as report:
            np.testing.assert_array_equal(made.compute(), volume + 1)
    finally:
        MEMORY.give(1 << 40)
    assert report.counted["direct"] == 27
    assert report.counted["buffers"] == 0
    assert report.counted["deferred"] == report.arrays[0]["buffers"]


def test_a_changed_file_is_read_through_the_open_object(tmp_path: Path, volume: np.ndarray[Any, Any]) -> None:
    path = tmp_path / "v.npy"
    np.save(path, volume)
    (made,) = reblock.dask.optimize(mapped(path, 20) + 1, memory="200KiB")
    np.save(tmp_path / "other.npy", volume * 0)
    (tmp_path / "other.npy").replace(path)
    np.testing.assert_array_equal(made.compute(), volume + 1)


def test_a_changed_file_is_an_error_in_another_process(tmp_path: Path, volume: np.ndarray[Any, Any]) -> None:
    path = tmp_path / "v.npy"
    np.save(path, volume)
    (made,) = reblock.dask.optimize(mapped(path, 20) + 1, memory="200KiB")
    again = pickle.loads(pickle.dumps(made))
    np.save(tmp_path / "other.npy", volume * 0)
    (tmp_path / "other.npy").replace(path)
    with pytest.raises(reblock.ChangedError, match="has changed since the graph was optimised"):
        again.compute()


def test_a_file_that_is_closed_after_optimisation_is_read_by_its_path(
    dataset: Any, volume: np.ndarray[Any, Any]
) -> None:
    (made,) = reblock.dask.optimize(da.from_array(dataset, chunks=20) + 1, memory="200KiB")
    dataset.file.close()
    np.testing.assert_array_equal(made.compute(), volume + 1)


def test_a_file_that_is_closed_before_gives_the_error_of_dask(dataset: Any) -> None:
    made = da.from_array(dataset, chunks=20) + 1
    dataset.file.close()
    errors = []
    for context in (dask.config.set({}), reblock.dask.io()):
        with context, pytest.raises(Exception) as caught:
            made.compute()
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def test_a_failure_of_ours_leaves_the_graph_alone(
    dataset: Any, volume: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("unexpected")

    monkeypatch.setattr("reblock.dask.optimizing.find_loads", fail)
    with reblock.dask.io() as report:
        np.testing.assert_array_equal((da.from_array(dataset, chunks=20) + 1).compute(), volume + 1)
    assert report.notes == ["a graph was left as it is: KeyError: 'unexpected'"]


def test_a_lock_is_held_while_a_library_reads(tmp_path: Path, volume: np.ndarray[Any, Any]) -> None:
    class Counting:
        def __init__(self) -> None:
            self.entered = 0

        def acquire(self) -> None:
            self.entered += 1

        def release(self) -> None:
            pass

        def __enter__(self) -> None:
            self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

    with h5py.File(tmp_path / "rw.h5", "w") as file:
        lock = Counting()
        x = da.from_array(file.create_dataset("x", data=volume), chunks=20, lock=lock)
        with reblock.dask.io(memory="200KiB") as report:
            np.testing.assert_array_equal((x + 1).compute(), volume + 1)
    assert report.counted["buffers"] == lock.entered


def test_old_style_graphs_are_understood(dataset: Any, volume: np.ndarray[Any, Any]) -> None:
    dsk: dict[Any, Any] = {"source": dataset}
    for i in range(3):
        region = (slice(None), slice(20 * i, 20 * i + 20), slice(None))
        dsk["load", i] = (da.core.getter, "source", region)
        dsk["out", i] = (np.add, ("load", i), 1)
    keys = [("out", i) for i in range(3)]
    found = reblock.dask.optimize_graph(dsk, keys, memory="1MiB")
    parts = dask.get(found, keys)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), volume + 1)
    assert any("buffer" in str(key) for key in found)


def test_switching_on_and_off(dataset: Any, volume: np.ndarray[Any, Any]) -> None:
    report = reblock.dask.enable(memory="200KiB")
    try:
        assert (da.from_array(dataset, chunks=20) + 1).compute().sum() == (volume + 1).sum()
    finally:
        reblock.dask.disable()
    assert report.counted["buffers"] > 1
    before = report.counted
    da.from_array(dataset, chunks=20).compute()
    assert report.counted == before


@pytest.mark.parametrize("call", ["io", "enable", "optimize", "explain"])
def test_mistakes_are_named(call: str, dataset: Any) -> None:
    x = da.from_array(dataset, chunks=20)
    for options in ({"strategy": "greedy"}, {"memory": "a lot"}):
        function = getattr(reblock.dask, call)
        with pytest.raises(UsageError, match=r"greedy|a lot"):
            function(**options).__enter__() if call == "io" else function(*[x] * (call != "enable"), **options)


def test_expression_arrays_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Expression:
        expr = None

    with pytest.raises(UsageError, match="expression array"):
        reblock.dask.explain(Expression())
    with pytest.raises(UsageError, match=r"not builtins[.]int"):
        reblock.dask.explain(1)
    with (
        dask.config.set({"array.query-planning": True}),
        pytest.warns(UserWarning, match="bypass graph optimisation"),
        reblock.dask.io(),
    ):
        pass


def test_the_report_says_what_was_planned_and_counted(dataset: Any) -> None:
    x = da.from_array(dataset, chunks=20)
    before = reblock.dask.explain(x + 1, memory="200KiB")
    assert before.to_json()["counted"] is None
    with reblock.dask.io(memory="200KiB") as after:
        (x + 1).compute()
    planned, done = before.to_json(), after.to_json()
    assert planned["arrays"] == done["arrays"]
    assert done["counted"]["seeks"] == planned["buffered"]["seeks"] < planned["plain"]["seeks"]
    assert done["counted"]["bytes"] == planned["buffered"]["bytes"] == dataset.nbytes
    assert "counted" in str(after)
    assert "<svg" in after._repr_html_()


def test_names_are_escaped_in_pictures(tmp_path: Path, volume: np.ndarray[Any, Any]) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["<script>"] = volume
    with h5py.File(tmp_path / "v.h5") as file:
        shown = reblock.dask.explain(da.from_array(file["<script>"], chunks=20), memory="200KiB")._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_importing_reblock_does_not_import_dask() -> None:
    script = "import sys, reblock, reblock.api; reblock.open; sys.exit('dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_dask_the_extra_is_named() -> None:
    script = "import sys; sys.modules['dask'] = None\nimport reblock.dask"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'reblock[dask]'" in found.stderr


def test_optimizers_can_be_sent(dataset: Any) -> None:
    with reblock.dask.io(memory="200KiB", strategy="keep"):
        again = pickle.loads(pickle.dumps(dask.config.get("array_optimize")))
    made = da.from_array(dataset, chunks=20) + 1
    found = again(made.__dask_graph__(), made.__dask_keys__())
    assert any("buffer" in str(key) for key in found)
    script = f"""
import sys, pickle, importlib.abc
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        return None
sys.meta_path = [one for one in sys.meta_path if "editable" not in repr(one).lower()]
sys.path = [one for one in sys.path if "/src" not in one]
sys.path_importer_cache.clear()
import importlib.util
assert importlib.util.find_spec("reblock") is None, importlib.util.find_spec("reblock")
print(pickle.loads({pickle.dumps(again)!r}).__module__)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd="/")
    assert done.stdout.strip() == "dask.array.optimization", done.stderr


def test_partial_options_are_passed(dataset: Any) -> None:
    made = da.from_array(dataset, chunks=20) + 1
    with dask.config.set(array_optimize=partial(reblock.dask.optimize_graph, memory="200KiB", strategy="multiple")):
        assert made.compute().shape == dataset.shape
