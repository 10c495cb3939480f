"""Files that are built locally and uploaded to a real S3 store: values, parts, faults, kills, locks, leftovers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import DiskError, LockedError, SpaceError, TargetExistsError
from reblock.storage.media import object_upload, upload_workspace
from reblock.storage.media.object_upload import PartUpload
from reblock.storage.media.registry import connect, medium_of
from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for

DATA = np.random.default_rng(0).integers(0, 60000, (24, 40, 36), "u2")
CHUNKS = (8, 16, 12)


def more(value: str) -> Any:
    """A case for `make test-faults`."""
    return pytest.param(value, marks=pytest.mark.faults)


@pytest.fixture(autouse=True)
def building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which files are built."""
    pytest.importorskip("botocore")
    folder = tmp_path / "building"
    folder.mkdir()
    monkeypatch.setattr(upload_workspace, "_lasting", lambda: str(folder))
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", DATA)
    return tmp_path / "x.npy"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts of 5 MiB, the least that S3 takes."""
    monkeypatch.setattr(object_upload, "PART_BYTES", 5 << 20)
    return iter(())


def keys(bucket: str) -> set[str]:
    """All objects below a prefix."""
    import obstore

    medium = medium_of(bucket)
    page = obstore.list(medium.store, medium.path(bucket)).collect()
    return {one["path"].removeprefix(f"{medium.path(bucket)}/") for one in page}


def uploads(key: str) -> int:
    """Unfinished uploads to a key; they are aborted."""
    with PartUpload(medium_of(key), key) as found:
        return found.abort_all()


@pytest.mark.parametrize("name", ["x.h5", "x.nii.gz", *(more(name) for name in ("x.npy", "x.nc3", "x.tif", "x.nc"))])
def test_every_format_is_built_and_uploaded(source: Path, bucket: str, building: Path, name: str) -> None:
    url = f"{bucket}/{name}"
    report = reblock.repartition(source, url, **({} if name.endswith(".tif") else {"chunks": CHUNKS}))
    assert reblock.verify(source, url).equal
    assert report.digest
    assert keys(bucket) == {name}, "nothing of the run is left"
    assert list(building.iterdir()) == []


def test_zarr_to_hdf5_keeps_attributes(tmp_path: Path, source: Path, bucket: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = DATA
        file["data"].attrs["unit"] = "K"
    reblock.repartition(tmp_path / "a.h5", f"{bucket}/a.zarr", chunks=CHUNKS, codec="none")
    reblock.repartition(f"{bucket}/a.zarr", f"{bucket}/b.h5::/scan/data", chunks=(24, 10, 6), codec="gzip:1")
    medium = medium_of(bucket)
    with medium.reader(f"{bucket}/b.h5") as handle:
        data = bytearray(handle.size())
        handle.read(memoryview(data), 0)
    (tmp_path / "b.h5").write_bytes(data)
    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["scan/data"][...], DATA)
        assert dict(file["scan/data"].attrs) == {"unit": "K"}
        assert file["scan/data"].chunks == (24, 10, 6)


def test_a_dataset_is_built_and_uploaded(tmp_path: Path, bucket: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["group/two"] = DATA, DATA[0].astype("f4")
        file.attrs["title"] = "both"
    reblock.repartition(tmp_path / "a.h5", f"{bucket}/b.h5")
    assert reblock.verify(tmp_path / "a.h5", f"{bucket}/b.h5").equal
    reblock.repartition(f"{bucket}/b.h5", f"{bucket}/c.zarr")
    assert reblock.verify(tmp_path / "a.h5", f"{bucket}/c.zarr").equal


def big(tmp_path: Path) -> Path:
    """An array of 12 MiB, which is uploaded in several parts."""
    np.save(tmp_path / "big.npy", np.random.default_rng(2).integers(0, 1 << 32, (12, 512, 512), "u4"))
    return tmp_path / "big.npy"


@pytest.mark.usefixtures("small_parts")
def test_the_upload_is_priced_and_counted(tmp_path: Path, bucket: str, s3: S3Server) -> None:
    """Bytes, parts and requests of an uncompressed file are those that the plan says; the device is the local one."""
    with Proxy(s3.port) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        job = reblock.plan(big(tmp_path), f"{bucket}/y.npy", memory="16MiB")
        planned = job.to_json()["upload"]
        assert "s3" not in job.decision.problem.devices[-1].name
        before = proxy.counts.copy()
        report = reblock.run(job)
        sent = proxy.counts - before
    connect(f"s3://{BUCKET}", s3.options)
    done = report.to_json()["uploaded"]
    assert planned["parts"] == done["parts"] == 3
    assert planned["requests"] == done["requests"] == 7
    assert 0 <= done["bytes"] - planned["bytes"] < 4096, "the header of the file"
    assert any("uploaded: 12" in note and "MiB in 3 parts, 7 requests" in note for note in report.notes)
    assert "in 3 parts, 7 requests" in " ".join(job.explain().split())
    assert sent["PUT other"] >= 3
    assert reblock.plan(big(tmp_path), f"{bucket}/y.zarr").upload is None


@pytest.mark.faults
@pytest.mark.usefixtures("small_parts")
def test_parts_under_trouble(tmp_path: Path, bucket: str, s3: S3Server) -> None:
    path, url = big(tmp_path), f"{bucket}/y.h5"
    with Proxy(s3.port, busy=0.2, cut=0.05, lost=0.1, seed=7) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        reblock.repartition(path, url, chunks=(4, 256, 256), codec="none")
        assert proxy.faults["busy"] > 3
    connect(f"s3://{BUCKET}", s3.options)
    assert reblock.verify(path, url).equal
    assert keys(bucket) == {"y.h5"}
    assert uploads(url) == 0


@pytest.mark.usefixtures("small_parts")
def test_what_another_program_made_meanwhile_is_kept(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url = big(tmp_path), f"{bucket}/y.npy"
    medium = medium_of(url)
    complete = PartUpload._complete

    def late(self: PartUpload, *args: Any, **more: Any) -> None:
        medium.write(url, [b"theirs"])
        complete(self, *args, **more)

    monkeypatch.setattr(PartUpload, "_complete", late)
    with pytest.raises(TargetExistsError, match="another program"):
        reblock.repartition(path, url)
    assert medium.status(url).size == len(b"theirs")
    assert uploads(url) == 0
    monkeypatch.setattr(PartUpload, "_complete", complete)
    assert reblock.status(url).state == "stopped"
    medium.remove(url)
    report = reblock.repartition(path, url)
    assert report.resumed_boxes == report.write_boxes + report.resumed_boxes, "only the upload was done again"
    assert reblock.verify(path, url).equal


def test_existing_targets(source: Path, bucket: str, tmp_path: Path) -> None:
    url = f"{bucket}/y.h5"
    reblock.repartition(source, url, chunks=CHUNKS)
    with pytest.raises(TargetExistsError):
        reblock.repartition(source, url, chunks=CHUNKS)
    assert reblock.repartition(source, url, chunks=CHUNKS, exist_ok=True).digest
    np.save(tmp_path / "other.npy", DATA + 1)
    reblock.repartition(tmp_path / "other.npy", url, chunks=CHUNKS, overwrite=True)
    assert np.array_equal(reblock.open(url)[...], DATA + 1)
    medium_of(url).write(f"{bucket}/no.h5", [b"not an array"])
    with pytest.raises(TargetExistsError, match="nothing else"):
        reblock.repartition(source, f"{bucket}/no.h5", chunks=CHUNKS, overwrite=True)


@pytest.mark.faults
def test_a_file_replaces_a_prefix(source: Path, bucket: str) -> None:
    reblock.repartition(source, f"{bucket}/z.h5", chunks=CHUNKS, to_format="zarr")
    reblock.repartition(source, f"{bucket}/z.h5", chunks=CHUNKS, overwrite=True)
    assert reblock.verify(source, f"{bucket}/z.h5").equal
    assert keys(bucket) == {"z.h5"}


def test_one_writer(source: Path, bucket: str) -> None:
    url = f"{bucket}/y.h5"
    job = reblock.plan(source, url, chunks=CHUNKS)
    with medium_of(url).upload_workspace(url), pytest.raises(LockedError, match="process"):
        reblock.run(job)
    reblock.run(job)


def test_no_room_is_said_before_anything_is_written(
    source: Path, bucket: str, building: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reblock.model.medium import Room
    from reblock.storage.media.local import LocalMedium

    monkeypatch.setattr(LocalMedium, "room", lambda *_: Room("disk", 1000, 1000))
    with pytest.raises(SpaceError, match=str(building)):
        reblock.repartition(source, f"{bucket}/y.h5", chunks=CHUNKS)
    assert keys(bucket) == set()


KILLED = """
import os, sys, time
from reblock.storage.media import object_upload, upload_workspace
import reblock
object_upload.PART_BYTES = 5 << 20
upload_workspace._lasting = lambda: sys.argv[3]
at = sys.argv[4]
if at == "building":
    from reblock.storage.hdf5.store import Hdf5Store
    real = Hdf5Store.checkpoint
    def checkpoint(self):
        real(self)
        if os.path.exists(sys.argv[3] + "/once"):
            print("now", flush=True); time.sleep(60)
        open(sys.argv[3] + "/once", "w").close()
    Hdf5Store.checkpoint = checkpoint
else:
    real = object_upload.PartUpload._send_part
    def send_part(self, number, *more):
        done = real(self, number, *more)
        print("now", flush=True); time.sleep(60)
        return done
    object_upload.PartUpload._send_part = send_part
reblock.repartition(sys.argv[1], sys.argv[2], chunks=(1, 256, 256), codec="gzip:1", memory="16MiB")
"""


def kill(path: Path, url: str, folder: Path, at: str, s3: S3Server) -> None:
    """Start a run, and kill it in the middle of building or uploading."""
    environment = {**os.environ, **{name.upper(): value for name, value in s3.options.items()}}
    words = [sys.executable, "-c", KILLED, str(path), url, str(folder), at]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        assert line == b"now\n", process.stderr.read().decode()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("at", [more("building"), "uploading"])
def test_killed_and_resumed(tmp_path: Path, bucket: str, building: Path, s3: S3Server, at: str) -> None:
    path, url = big(tmp_path), f"{bucket}/y.h5"
    kill(path, url, building, at, s3)
    assert keys(bucket), "the lock and the log"
    state = reblock.status(url)
    assert state is not None
    assert state.state == "stopped"
    assert state.finished_boxes > 0
    report = reblock.resume(url)
    assert report.resumed_boxes > 0
    assert reblock.verify(path, url).equal
    assert keys(bucket) == {"y.h5"}
    assert uploads(url) == 0
    assert [one for one in building.iterdir() if one.name != "once"] == []


@pytest.mark.faults
@pytest.mark.usefixtures("small_parts")
def test_killed_and_given_up(tmp_path: Path, bucket: str, building: Path, s3: S3Server) -> None:
    url = f"{bucket}/y.h5"
    kill(big(tmp_path), url, building, "uploading", s3)
    removed = reblock.clean(url)
    assert any("upload" in one for one in removed)
    assert keys(bucket) == set()
    assert uploads(url) == 0
    assert [one for one in building.iterdir() if one.name != "once"] == []


@pytest.mark.faults
def test_resumed_where_the_folder_is_not(
    tmp_path: Path, bucket: str, building: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url = big(tmp_path), f"{bucket}/y.h5"
    kill(path, url, building, "building", s3)
    other = tmp_path / "elsewhere"
    other.mkdir()
    monkeypatch.setattr(upload_workspace, "_lasting", lambda: str(other))
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    # The process has died on another machine, so its lease is waited for.
    lock = f"{url}.reblock/lock"
    medium_of(url).remove(lock)
    report = reblock.resume(url)
    assert any("built again from the start" in note for note in report.notes)
    assert reblock.verify(path, url).equal
    assert keys(bucket) == {"y.h5"}


def test_wrong_credentials_publish_nothing(source: Path, bucket: str, s3: S3Server) -> None:
    connect(f"s3://{BUCKET}", {**s3.options, "aws_secret_access_key": "wrong-secret"})
    try:
        with pytest.raises(DiskError, match="403") as caught:
            reblock.repartition(source, f"{bucket}/y.h5", chunks=CHUNKS)
    finally:
        connect(f"s3://{BUCKET}", s3.options)
    assert "wrong-secret" not in str(caught.value)
    assert keys(bucket) == set()
