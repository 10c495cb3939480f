"""`reblock bench device s3://…` measures a store, and plans use the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reblock.api.devices import find_device, known_device
from reblock.bench import store_speed
from reblock.cli.application import application
from reblock.geometry import Grid
from reblock.model import Layout
from reblock.storage.media.registry import connect
from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for

DELAY_SECONDS = 0.02


def test_a_store_is_measured(s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REBLOCK_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(store_speed, "DEPTHS", (1, 8))
    monkeypatch.setattr(store_speed, "_SLICE_SECONDS", 0.2)
    monkeypatch.setattr("reblock.bench.device._SLICE_SECONDS", 0.01)
    monkeypatch.setattr("reblock.bench.device.CODECS", ("zstd",))
    monkeypatch.setattr("reblock.bench.device._CACHED_BYTES", 1 << 20)
    with Proxy(s3.port, delay=DELAY_SECONDS) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        words = ["bench", "device", bucket, "--size", "4MiB", "--output", "store.json", "--name", "near", "--json"]
        result = CliRunner().invoke(application, words)
    connect(f"s3://{BUCKET}", s3.options)
    assert result.exit_code == 0, result.output
    device = find_device("store.json")
    assert device.to_json() == json.loads(result.stdout)
    assert device.name == "near"
    assert device.depth == 8, "requests wait, so eight at once are faster than one"
    assert device.open_seconds >= DELAY_SECONDS
    assert device.create_seconds >= DELAY_SECONDS
    assert min(device.read_bytes_per_second, device.write_bytes_per_second) > 0
    assert device.decode_bytes_per_second["zstd"] > 0
    assert s3.keys(bucket.removeprefix(f"s3://{BUCKET}/")) == set(), "nothing is left"
    plan = ["plan", "--shape", "64,64,64", "--dtype", "u2", "--source-chunks", "16,16,16", "--chunks", "32,8,8"]
    planned = CliRunner().invoke(application, [*plan, "--device", "store.json", "--json"])
    assert planned.exit_code == 0, planned.output
    layout = Layout.raw("u2", Grid.of((64, 64, 64), (16, 16, 16)))
    learned = known_device(f"{bucket}/a.zarr", layout)
    assert (learned.depth, learned.open_seconds) == (8, device.open_seconds)


def test_a_bucket_that_is_missing(s3: S3Server, tmp_path: Path) -> None:
    connect("s3://no-such-bucket", s3.options)
    result = CliRunner().invoke(
        application, ["bench", "device", "s3://no-such-bucket/x", "--output", str(tmp_path / "d.json")]
    )
    assert result.exit_code == 1
    assert "NoSuchBucket" in result.output
    assert not (tmp_path / "d.json").exists()
