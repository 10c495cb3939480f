"""Runs from and to a real S3 server: values, counts of requests, faults, locks, secrets."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import ChangedError, DiskError, LockedError, StorageError, UsageError
from reblock.storage.media.object_workspace import ObjectWorkspace
from reblock.storage.media.registry import connect, medium_of
from s3_proxy import Proxy
from s3_server import BUCKET, SECRET, S3Server, options_for

DATA = np.random.default_rng(0).integers(0, 60000, (24, 40, 36), "u2")
CHUNKS = (8, 16, 12)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", DATA)
    return tmp_path / "x.npy"


@pytest.mark.parametrize(("codec", "shards"), [("zstd:1", None), ("none", (16, 32, 24))])
def test_there_and_back(source: Path, bucket: str, codec: str, shards: tuple[int, ...] | None) -> None:
    there = reblock.repartition(source, f"{bucket}/a.zarr", chunks=CHUNKS, codec=codec, shards=shards)
    between = reblock.repartition(f"{bucket}/a.zarr", f"{bucket}/b.zarr", chunks=(24, 10, 6), codec="zstd:1")
    back = reblock.repartition(f"{bucket}/b.zarr", source.with_name("y.npy"))
    assert there.digest == between.digest == back.digest
    assert np.array_equal(np.load(source.with_name("y.npy")), DATA)
    assert np.array_equal(reblock.open(f"{bucket}/a.zarr")[3:9, 5, ::7], DATA[3:9, 5, ::7])
    assert reblock.verify(f"{bucket}/a.zarr", f"{bucket}/b.zarr").equal
    names = {name for name, _ in medium_of(bucket).entries(f"{bucket}/b.zarr")}
    assert names == {"zarr.json", "c"}, "nothing of the run is left"


def test_zarr_python_reads_it(source: Path, bucket: str, s3: S3Server) -> None:
    zarr, obstore = pytest.importorskip("zarr"), pytest.importorskip("obstore")
    reblock.repartition(source, f"{bucket}/a.zarr", chunks=CHUNKS, codec="zstd:1", shards=(16, 32, 24))
    store = obstore.store.from_url(f"{bucket}/a.zarr", config=s3.options, client_options={"allow_http": True})
    assert np.array_equal(zarr.open_array(zarr.storage.ObjectStore(store, read_only=True))[...], DATA)


def test_requests_are_those_of_the_plan(source: Path, bucket: str, s3: S3Server) -> None:
    reblock.repartition(source, f"{bucket}/a.zarr", chunks=CHUNKS, codec="none")
    with Proxy(s3.port) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        report = reblock.repartition(f"{bucket}/a.zarr", f"{bucket}/b.zarr", chunks=(12, 20, 18), codec="none")
        chunks = {kind: count for kind, count in proxy.counts.items() if "chunk" in kind}
    predicted = report.predicted
    looks = chunks.pop("HEAD chunk", 0)
    assert chunks == {"GET chunk": predicted.opens - 8, "PUT chunk": 8}
    assert looks <= 8, "at most one look at each finished chunk"


def test_trouble_on_the_way(source: Path, bucket: str, s3: S3Server) -> None:
    reblock.repartition(source, f"{bucket}/a.zarr", chunks=CHUNKS, codec="none")
    with Proxy(s3.port, busy=0.2, cut=0.05, lost=0.02, seed=3) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        reblock.repartition(f"{bucket}/a.zarr", f"{bucket}/b.zarr", chunks=(6, 10, 9), codec="zstd:1")
        assert reblock.verify(source, f"{bucket}/b.zarr").equal
        assert proxy.faults["busy"] > 10
    connect(f"s3://{BUCKET}", s3.options)
    assert np.array_equal(reblock.open(f"{bucket}/b.zarr")[...], DATA)
    assert {name for name, _ in medium_of(bucket).entries(f"{bucket}/b.zarr")} == {"zarr.json", "c"}


def test_a_run_that_cannot_remove_what_it_began(source: Path, bucket: str, s3: S3Server) -> None:
    """Nothing is finished when it is stopped, and the store has gone: what is there can be resumed, or discarded."""
    with Proxy(s3.port) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        job = reblock.plan(source, f"{bucket}/a.zarr", chunks=CHUNKS)

        def cancelled() -> bool:
            if proxy.counts["PUT chunk"]:
                proxy.refuse()
            return bool(proxy.counts["PUT chunk"])

        with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
            reblock.run(job, cancelled=cancelled)


def test_one_writer(source: Path, bucket: str) -> None:
    job = reblock.plan(source, f"{bucket}/a.zarr", chunks=CHUNKS)
    with medium_of(bucket).workspace(f"{bucket}/a.zarr"), pytest.raises(LockedError, match="process"):
        reblock.run(job)
    reblock.run(job)
    with pytest.raises(reblock.TargetExistsError):
        reblock.run(job)
    reblock.run(job, overwrite=True)


def test_a_lock_outlives_its_owner_for_a_lease(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectWorkspace, "lease_seconds", 2.0)
    medium, target = medium_of(bucket), f"{bucket}/a"
    one, two = medium.workspace(target), medium.workspace(target)
    one.__enter__()
    lease = one._lease
    lease._stop.set()  # the owner has died, and on another machine
    lease._thread.join()
    found = one._find()
    assert found is not None
    medium.put_if(one.lock, b'{"pid": 1, "host": "elsewhere", "since": "now", "lease_seconds": 2}', found[0])
    with pytest.raises(LockedError, match="elsewhere"):
        two.__enter__()
    import time

    time.sleep(1.2)
    with pytest.raises(StorageError, match="could not be renewed"):
        medium.write(f"{target}/chunk", [b"late"])
    time.sleep(4.5)
    medium.hold(target, None)
    with two:
        medium.write(f"{target}/chunk", [b"new"])


def test_an_object_that_changes_while_it_is_read(source: Path, bucket: str) -> None:
    reblock.repartition(source, f"{bucket}/a.zarr", chunks=CHUNKS, codec="none")
    key = f"{bucket}/a.zarr/c/0/0/0"
    with medium_of(bucket).reader(key) as handle:
        size = handle.size()
        half = bytearray(size // 2)
        handle.read(memoryview(half), 0)
        medium_of(bucket).write(key, [bytes(size)])
        with pytest.raises(ChangedError):
            handle.read(memoryview(half), size // 2)


def test_what_is_wrong_is_said_without_secrets(s3: S3Server, bucket: str, source: Path) -> None:
    connect("s3://no-such-bucket", s3.options)
    with pytest.raises(DiskError, match="NoSuchBucket"):
        reblock.open("s3://no-such-bucket/a.zarr")
    connect(f"s3://{BUCKET}", {**s3.options, "aws_secret_access_key": "wrong-secret"})
    with pytest.raises(DiskError, match="403") as caught:
        reblock.open(f"{bucket}/a.zarr")
    assert "wrong-secret" not in str(caught.value)
    connect(f"s3://{BUCKET}", {**s3.options, "aws_endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(DiskError, match=r"127\.0\.0\.1:9"):
        reblock.open(f"{bucket}/a.zarr")
    connect(f"s3://{BUCKET}", s3.options)
    for url in ("s3://user:pass@b/x.zarr", "s3://", "http://host/x.npy?signature=abc", "s3://b/../x"):
        with pytest.raises(UsageError) as wrong:
            reblock.open(url)
        assert "pass" not in str(wrong.value)
        assert "abc" not in str(wrong.value)
    reblock.repartition(source, f"{bucket}/a.zarr", chunks=CHUNKS, codec="none")
    job = reblock.plan(f"{bucket}/a.zarr", f"{bucket}/b.zarr", chunks=(4, 4, 4))
    assert SECRET not in str(job.request) + repr(job) + job.explain()


def test_a_medium_travels_with_its_options(s3: S3Server, bucket: str) -> None:
    medium = medium_of(bucket)
    medium.write(f"{bucket}/x", [b"abc"])
    assert pickle.loads(pickle.dumps(medium)).status(f"{bucket}/x").size == 3
