"""Runs on datasets: stopped, killed, resumed, shown and discarded."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import zarr

import reblock
from reblock.errors import ChangedError, Interrupted, StorageError, UnfinishedError
from reblock.runs.journal import Journal
from reblock.runs.staging import Staging
from reblock.storage.zarr.store import ZarrStore

OPTIONS: dict[str, Any] = {"chunks": "y=-1,x=4", "memory": "64MiB"}
NAMES = [f"v{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    top = zarr.create_group("a.zarr", attributes={"title": "six"})
    for number, name in enumerate(NAMES):
        made = top.create_array(name, shape=(40, 32), chunks=(5, 32), dtype="f4", dimension_names=["y", "x"])
        made[...] = np.random.default_rng(number).normal(size=(40, 32))
    return tmp_path


def stop_at(part: float, **options: Any) -> None:
    """Stop a run when a part of its bytes is moved."""
    job = reblock.plan("a.zarr", "b.zarr", **{**OPTIONS, **options})
    enough = Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole * part:
            enough.set()

    with pytest.raises(Interrupted):
        reblock.run(job, progress=progress, cancelled=enough.is_set)


def journal() -> Journal:
    with Staging("b.zarr").looking() as found:
        assert found is not None
        return found


def test_a_stopped_run_is_shown_and_resumed() -> None:
    want = reblock.repartition("a.zarr", "c.zarr", **OPTIONS)
    stop_at(0.5)
    found = reblock.status("b.zarr")
    assert found is not None
    assert list(found.arrays) == NAMES
    done = [one.finished_boxes == one.boxes for one in found.arrays.values()]
    assert 0 < sum(done) < len(NAMES)
    assert done == sorted(done, reverse=True)
    assert found.finished_bytes == sum(one.finished_bytes for one in found.arrays.values()) < found.bytes
    report = reblock.repartition("a.zarr", "b.zarr", **OPTIONS)
    assert report.digest == want.digest
    assert report.write_boxes + report.resumed_boxes == found.boxes
    assert report.resumed_boxes >= found.finished_boxes
    assert [one.write_boxes for one in report.arrays.values()][: sum(done)] == [0] * sum(done)
    assert reblock.verify("a.zarr", "b.zarr")


def test_an_array_that_cannot_be_closed_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arrays after it may be written meanwhile; it is closed by the next run, and they are not written again."""
    want, commit = reblock.repartition("a.zarr", "c.zarr", **OPTIONS), ZarrStore.commit

    def failing(self: ZarrStore, *arguments: Any) -> None:
        if self.inner == "v2":
            raise StorageError(f"{self.location} cannot be closed")
        commit(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ZarrStore, "commit", failing)
        with pytest.raises(StorageError, match=r"v2 cannot be closed.*the same command resumes"):
            reblock.repartition("a.zarr", "b.zarr", **OPTIONS)
    assert {"v0", "v1"} <= set(journal().done())
    assert "v2" not in journal().done()
    report = reblock.repartition("a.zarr", "b.zarr", **OPTIONS)
    assert report.digest == want.digest
    assert [report.arrays[name].write_boxes for name in ("v0", "v1", "v2")] == [0, 0, 0]
    assert reblock.verify("a.zarr", "b.zarr")


def test_resume_needs_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    want = reblock.repartition("a.zarr", "c.zarr", include=["v1", "v[345]"], codec="zstd:2", **OPTIONS)
    stop_at(0.4, include=["v1", "v[345]"], codec="zstd:2")
    monkeypatch.setattr("reblock.api.planning.choose", lambda *_, **__: pytest.fail("planned"))
    monkeypatch.setattr("reblock.api.parts.choose", lambda *_, **__: pytest.fail("planned"))
    report = reblock.resume("b.zarr")
    assert report is not None
    assert report.digest == want.digest
    assert reblock.resume("b.zarr") is None


def test_clean_leaves_nothing(here: Path) -> None:
    stop_at(0.5)
    assert reblock.clean("b.zarr")
    assert {path.name for path in here.iterdir()} == {"a.zarr"}


def test_another_problem_is_refused() -> None:
    stop_at(0.5)
    with pytest.raises(UnfinishedError, match=r"v0\.target\.chunks was"):
        reblock.repartition("a.zarr", "b.zarr", chunks="y=-1,x=8")
    with pytest.raises(UnfinishedError, match="array 'v5' is left out"):
        reblock.repartition("a.zarr", "b.zarr", exclude="v5", **OPTIONS)


@pytest.mark.parametrize("what", ["v0/zarr.json", "zarr.json", "v5/c/0/0"])
def test_a_source_that_changed_is_refused(what: str) -> None:
    stop_at(0.5)
    path = Path("a.zarr", what)
    path.write_bytes(path.read_bytes())
    with pytest.raises(ChangedError, match=what):
        reblock.repartition("a.zarr", "b.zarr", **OPTIONS)


def test_finished_arrays_are_checked_and_not_done_again() -> None:
    """A chunk of a finished array that was changed is written again; the rest is not."""
    want = reblock.repartition("a.zarr", "c.zarr", **OPTIONS)
    stop_at(0.5)
    staged = Path(Staging("b.zarr").workspace.array)
    chunk = staged / "v0" / "c" / "0" / "3"
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(data)
    shutil.rmtree(staged / "v1" / "c" / "0")
    report = reblock.repartition("a.zarr", "b.zarr", **OPTIONS)
    assert report.digest == want.digest
    assert report.arrays["v0"].write_boxes == 1
    assert any("had changed" in note for note in report.notes)
    assert reblock.verify("a.zarr", "b.zarr", reader="library")


def test_a_lost_array_is_made_again() -> None:
    want = reblock.repartition("a.zarr", "c.zarr", **OPTIONS)
    stop_at(0.5)
    shutil.rmtree(Path(Staging("b.zarr").workspace.array) / "v0")
    report = reblock.repartition("a.zarr", "b.zarr", **OPTIONS)
    assert report.digest == want.digest
    assert any("made again" in note for note in report.notes)
    assert reblock.verify("a.zarr", "b.zarr")


def test_passes_are_numbered_over_arrays() -> None:
    stop_at(0.5)
    found = journal()
    assert found.header["journal"] == 4
    assert [one["name"] for one in found.header["arrays"]] == NAMES
    assert len(found.header["boxes"]) == len(found.header["plans"]) == len(NAMES)
    assert sorted(found.begun()) == list(range(len(found.begun())))
    assert set(found.done()) <= set(NAMES)


def test_arrays_in_two_passes() -> None:
    """Intermediate arrays of one array do not meet those of another."""
    options = {"chunks": "y=-1,x=1", "memory": 24_000, "strategy": "multipass", "codec": "none"}
    top = zarr.create_group("t.zarr")
    for name in ("a", "b", "c"):
        made = top.create_array(
            name, shape=(64, 64), chunks=(1, 64), dtype="f8", compressors=None, dimension_names=["y", "x"]
        )
        made[...] = np.random.default_rng(len(name)).normal(size=(64, 64))
    try:
        job = reblock.plan("t.zarr", "b.zarr", **options)
    except reblock.ReblockError as error:
        pytest.skip(f"no such plan: {error}")
    assert all(len(one.plan.passes) > 1 for one in job.jobs.values())
    for part in (0.2, 0.5, 0.8):
        enough = Event()

        def progress(done: int, whole: int, part: float = part, enough: Event = enough) -> None:
            if done >= whole * part:
                enough.set()

        with pytest.raises(Interrupted):
            reblock.run(job, progress=progress, cancelled=enough.is_set)
    assert reblock.run(job).digest
    assert reblock.verify("t.zarr", "b.zarr")


# ---------------------------------------------------------------- into an existing group
@pytest.mark.parametrize("version", [2, 3])
def test_an_array_is_added_to_a_group(version: int) -> None:
    top = zarr.create_group("g.zarr", zarr_format=version)
    top.create_array("old", data=np.arange(6), chunks=(2,))
    top.create_group("ocean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata("g.zarr")
    values = np.random.default_rng(1).normal(size=(30, 20))
    np.save("x.npy", values)
    for name in ("new", "ocean/salt", "deep/down/salt"):
        report = reblock.repartition("x.npy", f"g.zarr::{name}", chunks="10,10")
        assert report.digest == reblock.info(f"g.zarr::{name}")["digest"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = zarr.open_consolidated("g.zarr")
            np.testing.assert_array_equal(found[name][...], values)
            np.testing.assert_array_equal(found["old"][...], np.arange(6))
        again = reblock.repartition("x.npy", f"g.zarr::{name}", chunks="10,10", exist_ok=True)
        assert again.write_boxes == 0
    with pytest.raises(reblock.TargetExistsError):
        reblock.repartition("x.npy", "g.zarr::new", chunks="10,10")
    reblock.repartition("x.npy", "g.zarr::new", chunks="5,5", overwrite=True)
    np.testing.assert_array_equal(zarr.open_group("g.zarr", mode="r")["new"][...], values)
    assert not [path for path in Path("g.zarr").rglob("*") if "reblock-" in path.name or path.name.endswith(".reblock")]
    with pytest.raises(reblock.UsageError, match="is not a group"):
        reblock.repartition("x.npy", "g.zarr::old/below")


def test_adding_to_a_group_is_stopped_and_resumed() -> None:
    np.save("x.npy", np.random.default_rng(1).normal(size=(256, 256)))
    job, enough = reblock.plan("x.npy", "a.zarr::more/x", chunks="16,16", memory="64KiB"), Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole // 2:
            enough.set()

    with pytest.raises(Interrupted):
        reblock.run(job, progress=progress, cancelled=enough.is_set)
    assert reblock.verify("a.zarr::v0", "a.zarr::v0")
    found = reblock.status("a.zarr::more/x")
    assert found is not None
    assert found.finished_boxes
    report = reblock.resume("a.zarr::more/x")
    assert report is not None
    assert report.resumed_boxes
    assert reblock.verify("x.npy", "a.zarr::more/x")
    assert reblock.status("a.zarr::more/x") is None
