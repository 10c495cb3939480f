"""Commands on URLs: each does its job on a store, fails in one quick line, and never shows or stores a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from click.testing import CliRunner, Result

import reblock
from reblock.cli.application import application
from reblock.errors import Interrupted, UsageError
from reblock.storage.media.registry import connect, connect_all, medium_of
from s3_proxy import Proxy
from s3_server import BUCKET, KEY, SECRET, S3Server, options_for

DATA = np.random.default_rng(4).integers(0, 60000, (16, 24, 20), "u2")


@pytest.fixture(name="here")
def _here(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder in which only storage options lead to the server; measurements are kept in it, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REBLOCK_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.save("x.npy", DATA)
    yield tmp_path
    connect_all(options={}, locks=True)
    connect(f"s3://{BUCKET}", s3.options)


def call(options: dict[str, str], *words: str) -> Result:
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    return CliRunner().invoke(application, [*words, *given])


def call_json(options: dict[str, str], *words: str) -> Any:
    result = call(options, *words, "--json")
    assert result.exit_code == 0, (words, result.output)
    return json.loads(result.stdout)


def interrupt(source: str, target: str, **wanted: Any) -> None:
    """Leave an unfinished run."""
    job = reblock.plan(source, target, memory="20KiB", **wanted)

    def stop(*_: object) -> None:
        if time.monotonic() - began > 1.2:
            raise KeyboardInterrupt
        time.sleep(0.4)

    began = time.monotonic()
    with pytest.raises(Interrupted):
        reblock.run(job, progress=stop)


def stored(s3: S3Server, below: str) -> dict[str, bytes]:
    store = obstore.store.from_url(f"s3://{BUCKET}", config=s3.options, client_options={"allow_http": True})
    return {key: bytes(obstore.get(store, key).bytes()) for key in s3.keys(below)}


def test_commands_on_urls(s3: S3Server, bucket: str, here: Path) -> None:
    """Each of them, on an unfinished run, and no secret in anything they say or write."""
    source, target, below = f"{bucket}/a.zarr", f"{bucket}/b.zarr", bucket.removeprefix(f"s3://{BUCKET}/")
    options, said = s3.options, []

    def told(*words: str) -> Any:
        found = call_json(options, *words)
        said.append(json.dumps(found))
        return found

    made = told("run", "x.npy", source, "--chunks", "4,8,5", "--codec", "none")
    assert told("info", source)["chunks"] == [4, 8, 5]
    said.append(call(options, "info", source).output)
    assert told("advise", source, "--access", "time-series=3,maps")
    assert told("status", source)["unfinished"] is None
    interrupt(source, target, chunks=(8, 6, 10), codec="zstd:1")
    unfinished = told("status", target)["unfinished"]
    assert unfinished["finished_boxes"] > 0
    said.append(call(options, "status", target).output)
    journal = stored(s3, f"{below}/b.zarr/.reblock")
    assert f"{below}/b.zarr/.reblock/journal/00000000" in journal
    assert not any(SECRET.encode() in body for body in stored(s3, below).values())
    resumed = told("resume", target)
    assert resumed["digest"] == made["digest"]
    assert resumed["resumed_boxes"] > 0
    assert told("verify", source, target)["equal"]
    assert told("verify", "x.npy", target)["equal"]
    interrupt(source, f"{bucket}/c.zarr", chunks=(8, 6, 10), codec="zstd:1")
    assert told("clean", f"{bucket}/c.zarr")["removed"]
    assert s3.keys(f"{below}/c.zarr") == set()
    assert told("plan", source, target, "--chunks", "2,2,2", "--save", "p.json", "--all")
    assert told("run", source, "y.npy", "--storage-option=timeout=100s")["digest"] == made["digest"]
    assert not any(SECRET in one for one in said)
    files = [Path(folder, name) for folder, _, names in os.walk(here) for name in names]
    assert {path.name for path in files} >= {"p.json", "y.npy"}
    assert not any(SECRET.encode() in path.read_bytes() for path in files)


def test_another_array_makes_them_differ(s3: S3Server, bucket: str, here: Path) -> None:
    assert call(s3.options, "run", "x.npy", f"{bucket}/a.zarr", "--chunks", "8,8,8", "--quiet").exit_code == 0
    other = DATA.copy()
    other[3, 4, 5] += 1
    np.save(here / "other.npy", other)
    assert call(s3.options, "verify", "other.npy", f"{bucket}/a.zarr").exit_code == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"aws_secret_access_key": "wrong-secret-word"}, "SignatureDoesNotMatch"),
        ({"aws_access_key_id": "nobody"}, "InvalidAccessKeyId"),
        ({"aws_endpoint_url": "http://127.0.0.1:9"}, "http://127.0.0.1:9 does not answer: connection refused"),
        ({"bucket": "no-such-bucket"}, "NoSuchBucket"),
    ],
)
def test_failures_are_one_quick_line(
    s3: S3Server, bucket: str, here: Path, changed: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server that has never answered is tried for some seconds: not in each of these commands.
    monkeypatch.setattr("reblock.storage.media.object_connection.MAX_FIRST_SECONDS", 0.2)
    options = {**options_for(s3.endpoint), **changed}
    url = bucket.replace(f"s3://{BUCKET}/", f"s3://{options.pop('bucket', BUCKET)}/")
    for command in (
        ["run", "x.npy", f"{url}/a.zarr", "--chunks", "8,8,8"],
        ["run", f"{url}/a.zarr", "y.npy"],
        ["info", f"{url}/a.zarr"],
        ["status", f"{url}/a.zarr"],
        ["resume", f"{url}/a.zarr"],
        ["clean", f"{url}/a.zarr"],
        ["verify", "x.npy", f"{url}/a.zarr"],
        ["plan", f"{url}/a.zarr", "--chunks", "4,4,4"],
    ):
        result = call(options, *command)
        assert result.exit_code in (1, 2), (command, result.output)
        assert words in result.output, (command, result.output)
        assert len(result.output.strip().splitlines()) == 1, (command, result.output)
        assert not any(secret in result.output for secret in (SECRET, "wrong-secret-word"))
    assert not (here / "y.npy").exists()
    assert s3.keys(bucket.removeprefix(f"s3://{BUCKET}/")) == set(), "nothing is half published"


@pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="the system does not show command lines")
def test_other_users_see_no_secrets_in_the_command_line(s3: S3Server, bucket: str, here: Path) -> None:
    """As `ps` shows it, while the command runs."""
    assert (here / "x.npy").exists()
    with Proxy(s3.port) as proxy:
        proxy.silent = True
        options = [f"--storage-option={name}={value}" for name, value in options_for(proxy.endpoint).items()]
        words = [*options, "--storage-option", "aws_session_token=my-token", "--json"]
        with subprocess.Popen([sys.executable, "-m", "reblock", "info", f"{bucket}/a.zarr", *words]) as process:
            try:
                end = time.monotonic() + 60
                while not proxy.counts and time.monotonic() < end:
                    time.sleep(0.02)
                shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            finally:
                process.kill()
    assert proxy.counts, "it was called with the options"
    assert b"aws_secret_access_key=*" in shown
    assert SECRET.encode() not in shown
    assert b"my-token" not in shown


def test_a_bucket_is_no_target(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    for words in (["run", "x.npy", "s3://b", "--to", "npy"], ["clean", "s3://b/"], ["status", "s3://b"]):
        result = CliRunner().invoke(application, words)
        assert result.exit_code == 1
        assert "is a bucket: name an array in it, such as s3://b/scan.zarr" in result.output
    result = CliRunner().invoke(application, ["run", "x.npy", "s3://b/.reblock", "--to", "zarr"])
    assert result.exit_code == 1
    assert ".reblock holds what runs need" in result.output


def test_an_array_that_fills_a_bucket(s3: S3Server) -> None:
    obstore, zarr = pytest.importorskip("obstore"), pytest.importorskip("zarr")
    session = pytest.importorskip("botocore.session").Session()
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    session.create_client("s3", endpoint_url=s3.endpoint, **keys).create_bucket(Bucket="whole")
    connect("s3://whole", s3.options)
    store = obstore.store.from_url("s3://whole", config=s3.options, client_options={"allow_http": True})
    zarr.create_array(zarr.storage.ObjectStore(store), shape=(4,), chunks=(2,), dtype="i4")[...] = np.arange(4)
    assert reblock.open("s3://whole")[...].tolist() == [0, 1, 2, 3]
    with pytest.raises(UsageError, match="is a bucket"):
        reblock.repartition(np.arange(4), "s3://whole", to_format="zarr")


@pytest.mark.parametrize(
    "url", ["s3://Bad Bucket%/a.zarr", "s3://b!/a.zarr", "s3://b/../a.zarr", "s3://b//a.zarr", "s3://b/a\\b"]
)
def test_urls_that_are_wrong(url: str) -> None:
    result = CliRunner().invoke(application, ["info", url])
    assert result.exit_code == 1
    assert any(words in result.output for words in ("is not the name of a bucket", "a URL must not contain"))


def test_options_that_are_wrong(here: Path) -> None:
    assert (here / "x.npy").exists()
    result = CliRunner().invoke(application, ["info", "s3://b/a.zarr", "--storage-option", "my-secret"])
    assert result.exit_code in (1, 2)
    assert "my-secret" not in result.output
    for option in (
        "no_such_name=my-secret",
        "timeout=my-secret",
        "proxy_url=my-secret",
        "aws_access_key_id=my\nsecret",
    ):
        result = CliRunner().invoke(application, ["info", "s3://b/a.zarr", "--storage-option", option])
        assert result.exit_code == 1
        assert "secret" not in result.output
        assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "endpoint",
    ["", "127.0.0.1:9", "http://", "http://127.0.0.1:99999", "http://me:my-secret", "http://[::1", "ftp://h"],
)
def test_endpoints_that_are_wrong(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would panic."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    result = CliRunner().invoke(application, ["info", "s3://b/a.zarr"])
    assert result.exit_code == 1
    assert (
        result.output == "reblock: error: s3://b: AWS_ENDPOINT_URL must be http://HOST[:PORT] or https://HOST[:PORT]\n"
    )


def test_a_login_in_the_endpoint_is_not_shown() -> None:
    given = options_for("http://me:my-secret@127.0.0.1:9")
    options = [f"--storage-option={name}={value}" for name, value in given.items()]
    result = CliRunner().invoke(application, ["info", "s3://b/a.zarr", *options])
    assert result.exit_code == 1
    assert "http://127.0.0.1:9 does not answer" in result.output
    assert "secret" not in result.output


def test_only_the_own_objects_of_a_run_are_removed(s3: S3Server, bucket: str, here: Path) -> None:
    """Somebody has put objects where a run keeps its own."""
    medium, prefix = medium_of(bucket), bucket.removeprefix(f"s3://{BUCKET}/")
    foreign = {f"{prefix}/a.zarr.reblock/notes", f"{prefix}/a.zarr2/notes", f"{prefix}/a.zarr-c/0"}
    for key in foreign:
        medium.write(f"s3://{BUCKET}/{key}", [b"mine"])
    reblock.repartition("x.npy", f"{bucket}/a.zarr", chunks=(8, 24, 20))
    reblock.clean(f"{bucket}/a.zarr")
    reblock.repartition("x.npy", f"{bucket}/a.zarr", chunks=(8, 24, 20), overwrite=True)
    assert foreign < s3.keys(prefix)
    assert (here / "x.npy").exists()
