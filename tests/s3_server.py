"""An S3 server of the tests' own: SeaweedFS from its Python package, on ports of the loopback address."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

BUCKET, KEY, SECRET = "test", "testkey", "testsecret"


def program() -> str | None:
    """The server's program, if its package is installed."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


def _free_ports(count: int) -> int:
    """The first of some consecutive ports that are free, and whose neighbours 10,000 higher are too."""
    for first in range(20_000 + os.getpid() % 2000 * 10, 44_000, 10):
        sockets: list[socket.socket] = []
        try:
            for port in (*range(first, first + count), *range(first + 10_000, first + 10_000 + count)):
                one = socket.socket()
                sockets.append(one)
                one.bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no free ports")


class S3Server:
    """A server that can be stopped and started again."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="rbs3-", dir="/tmp")
        self.port = _free_ports(5)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options that lead to it."""
        return options_for(self.endpoint)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        found = program()
        assert found is not None
        names = ("s3.port", "master.port", "volume.port", "filer.port", "admin.port")
        ports = [f"-{name}={self.port + number}" for number, name in enumerate(names)]
        quiet = [
            "-master.telemetry=false",
            "-webdav=false",
            "-admin.ui=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]
        environment = {
            **os.environ,
            "GOMEMLIMIT": "256MiB",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "S3_BUCKET": BUCKET,
        }
        here = [f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [found, "mini", *here, *quiet, *ports], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        end = time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=2) as answer:
                    if answer.status == 200 and self._has_bucket():
                        return
            except urllib.error.HTTPError as error:
                error.close()
            except OSError:
                pass
            time.sleep(0.1)
        self.stop()
        raise AssertionError(Path(self.folder, "log").read_text()[-2000:])

    def _has_bucket(self) -> bool:
        """Whether the bucket exists, which comes a moment after the server."""
        import obstore

        try:
            store = obstore.store.from_url(f"s3://{BUCKET}", config=self.options, client_options={"allow_http": True})
            obstore.list_with_delimiter(store)
        except obstore.exceptions.BaseError:
            return False
        return True

    def keys(self, prefix: str = "") -> set[str]:
        """The keys of all objects below a prefix, as the store lists them."""
        import obstore

        store = obstore.store.from_url(f"s3://{BUCKET}", config=self.options, client_options={"allow_http": True})
        return {one["path"] for page in obstore.list(store, prefix or None) for one in page}

    def uploads(self) -> list[str]:
        """Uploads in parts that were begun and neither completed nor aborted, by what the server keeps of them."""
        here = f"http://127.0.0.1:{self.port + 3}/buckets/{BUCKET}/.uploads/?limit=10000"
        asked = urllib.request.Request(here, headers={"Accept": "application/json"})
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return [one["FullPath"] for one in json.load(answer)["Entries"] or ()]
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return []
            raise

    def stop(self) -> None:
        """End it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        """Number of its process."""
        assert self._process is not None
        return self._process.pid

    def remove(self) -> None:
        """Stop it, and remove its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def options_for(endpoint: str) -> dict[str, str]:
    """Storage options for an endpoint that leads to such a server."""
    return {
        "aws_endpoint_url": endpoint,
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
    }
