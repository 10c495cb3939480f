"""What is known of workers before anything is written: memory, versions, what they see; and how much they are sent."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.api.crews import Facts, look_around
from reblock.api.dask_crew import check_memory, label_of
from reblock.engine import Crew, Site, Watch
from reblock.engine.source_state import SourceState
from reblock.engine.view import View
from reblock.errors import UsageError
from reblock.model.shares import MAX_SHARES

DATA = np.random.default_rng(0).integers(0, 60000, (48, 60, 64), "<u2")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checks") / "x.npy"
    np.save(path, DATA)
    return path


class Answering(Executor):
    """Workers that answer what they are told to."""

    num_workers = 2

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Any:
        from concurrent.futures import Future

        made: Future[Facts] = Future()
        assert function is look_around
        made.set_result(function(*arguments)._replace(**self.changes))
        return made


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"versions": {"reblock": "0.0.1"}}, "reblock 0.0.1, this process has"),
        ({"versions": {**look_around([]).versions, "numcodecs": "0.1"}}, "numcodecs 0.1"),
        ({"files": [None, None]}, "does not see"),
        ({"memory_bytes": 8 << 20}, "would take .* and it has 8.00 MiB"),
    ],
)
def test_workers_that_cannot_do_it(source: Path, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    job = reblock.plan(source, tmp_path / "a.zarr", chunks=(16, 20, 16), memory="32MiB")
    with pytest.raises(UsageError, match=words):
        reblock.run(job, executor=Answering(**changes))
    assert os.listdir(tmp_path) == []


def test_a_worker_in_another_folder(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path would lead elsewhere."""
    monkeypatch.chdir(source.parent)
    job = reblock.plan(source.name, tmp_path / "a.zarr", chunks=(16, 20, 16))
    with pytest.raises(UsageError, match=f"works in /elsewhere, .* such as {source}"):
        reblock.run(job, executor=Answering(folder="/elsewhere"))
    assert os.listdir(tmp_path) == []


def test_a_dask_worker_with_less_memory_than_a_task_needs() -> None:
    workers = {"tcp://a:1": {"memory_limit": 10**9, "metrics": {"memory": 2 * 10**8}}, "tcp://b:1": {"memory_limit": 0}}
    check_memory(workers, 5 * 10**8, 0.8)
    with pytest.raises(UsageError, match=r"tcp://a:1 has 57\d MiB .* at most 57\d MiB"):
        check_memory(workers, 7 * 10**8, 0.8)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/x/a-b.zarr/", "reblock a_b.zarr"),
        ("s3://b/key.zarr?secret=1", "reblock key.zarr"),
        ("", "reblock array"),
    ],
)
def test_names_in_the_dashboard(path: str, name: str) -> None:
    utils = pytest.importorskip("dask.utils")
    assert label_of(path) == name
    assert utils.key_split(f"{name} pass 1 of 2-0123abcd-17") == f"{name} pass 1 of 2"


def test_a_million_chunks_are_few_and_small_shares(source: Path) -> None:
    job = reblock.plan(
        shape=(1000, 1000, 100),
        dtype="u1",
        source_chunks=(100, 100, 1),
        chunks=(1, 10, 10),
        memory="4MiB",
        codec="zstd",
    )
    assert job.plan.passes[-1].writes.count == 10**6
    view = View.whole(reblock.open(source).store)
    crew = Crew(Answering(), 4)
    site = Site(view.store, str(source.parent), alone=True)
    shares = list(crew._shares(job.plan, 0, view, site, Watch(), 1e6, None))
    assert 4 <= len(shares) <= MAX_SHARES
    assert [share.tasks[0] for share in shares[1:]] == [share.tasks[1] for share in shares[:-1]]
    assert shares[-1].tasks[1] == job.plan.passes[0].tasks.count
    assert max(len(pickle.dumps(share)) for share in shares[:10]) < 20_000


def test_the_state_of_many_files_is_sent_in_little(tmp_path: Path) -> None:
    import zarr

    made = zarr.create_array(tmp_path / "a.zarr", shape=(40000,), chunks=(1,), dtype="u1", fill_value=0)
    made[20000:20010] = 1
    state = SourceState(View.whole(reblock.open(tmp_path / "a.zarr").store))
    small = state.carried()
    assert len(pickle.dumps(small)) < 50_000 < len(pickle.dumps(state))
    assert small.knows(0, None)
    assert not small.knows(0, os_status(tmp_path / "a.zarr" / "zarr.json"))
    first = next(path for path in (tmp_path / "a.zarr" / "c").iterdir())
    assert small.knows(20001, os_status(first))
    assert state.carried().carried() is not state


def os_status(path: Path) -> Any:
    from reblock.storage.media.registry import medium_of

    return medium_of(str(path)).status(str(path))


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as made:
        yield made


def test_interleaved_passes(source: Path, pool: Executor, tmp_path: Path) -> None:
    """Each worker has intermediate arrays of its own."""
    job = reblock.plan(
        source, tmp_path / "a.zarr", chunks=(16, 20, 16), memory="24KiB", strategy="multipass", device="hdd"
    )
    assert job.plan.interleaved
    report = reblock.run(job, executor=pool)
    assert np.array_equal(reblock.open(tmp_path / "a.zarr")[...], DATA)
    assert report.tasks > 1
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_datasets(pool: Executor, tmp_path: Path) -> None:
    """Arrays that only one process can write are written by this one."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("big", data=DATA, chunks=(16, 20, 16), compression="gzip", compression_opts=1)
        file["group/odd"] = np.arange(35.0).reshape(5, 7)
        file["group/scalar"] = 3
        file["empty"] = np.zeros((0, 4))
    report = reblock.run(reblock.plan(tmp_path / "x.h5", tmp_path / "y.zarr"), executor=pool)
    assert report.digest == reblock.verify(tmp_path / "x.h5", tmp_path / "y.zarr").source_digest
    job = reblock.plan(tmp_path / "x.h5", tmp_path / "z.h5")
    again = reblock.run(job, executor=pool)
    assert again.digest == report.digest
    assert "written without workers, because only one process can write this codec" in again.arrays["big"].notes
    assert sorted(os.listdir(tmp_path)) == ["x.h5", "y.zarr", "z.h5"]


def test_the_module_that_is_missing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reblock.api.crews.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'reblock\[dask\]'"):
        reblock.run(reblock.plan(source, tmp_path / "a.zarr", chunks=(16, 20, 16)), cluster="local:2")
