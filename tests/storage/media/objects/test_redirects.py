"""Redirects of object stores: a real server leads elsewhere, and nobody there ever gets a request."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from reblock.cli.application import application
from reblock.storage.media.registry import connect, connect_all
from s3_server import BUCKET, KEY, SECRET, S3Server


class Elsewhere:
    """The place where redirects lead: it notes what arrives, and answers nothing."""

    def __init__(self, host: str) -> None:
        self._socket = socket.create_server((host, 0))
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        self.heard: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                there, _ = self._socket.accept()
            except OSError:
                return
            with there:
                there.settimeout(1)
                try:
                    self.heard.append(there.recv(1 << 16))
                except OSError:
                    self.heard.append(b"")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def leading_server(there: str, code: int, *, spared: str = "none") -> Iterator[tuple[str, list[str]]]:
    """A server that redirects all requests, except those with a method or with a word in their path."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _lead(self) -> None:
            seen.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if spared in (self.command, "all") or spared in self.path:
                self.send_response(404)
            else:
                self.send_response(code)
                self.send_header("Location", f"{there}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _lead  # noqa: N815 - as the library calls them

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """Another host, which is this machine, too."""
    made = Elsewhere("127.0.0.2")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("obstore")
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    np.save("x.npy", np.arange(60).reshape(3, 4, 5))
    yield
    connect_all(options={}, locks=True)


def options_of(scheme: str, endpoint: str) -> list[str]:
    nobody = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    given = {
        "s3": {
            "aws_endpoint_url": endpoint,
            "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
            "aws_session_token": "token-of-a-session",
            "aws_region": "us-east-1",
        },
        "az": {
            "azure_storage_endpoint": f"{endpoint}/someone",
            "azure_storage_account_name": "someone",
            "azure_storage_account_key": "c2VjcmV0LXNlY3JldC1zZWNyZXQ=",
        },
        "gs": {
            "allow_http": "true",
            "google_service_account_key": json.dumps({"gcs_base_url": endpoint, "disable_oauth": True, **nobody}),
        },
    }[scheme]
    return [f"--storage-option={name}={value}" for name, value in given.items()]


def refused(words: list[str], heard: list[bytes]) -> str:
    """Run a command, which must fail in one quick line and send nothing elsewhere; returns the line."""
    began = time.monotonic()
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 1, result.output
    assert len(result.output.strip().splitlines()) == 1, result.output
    assert SECRET not in result.output
    assert heard == []
    assert time.monotonic() - began < 20
    return result.output


@pytest.mark.parametrize("scheme", ["s3", "az", "gs"])
@pytest.mark.parametrize("code", [307, *(pytest.param(code, marks=pytest.mark.faults) for code in (301, 302, 308))])
def test_no_redirect_leads_to_another_host(elsewhere: Elsewhere, scheme: str, code: int) -> None:
    with leading_server(elsewhere.url, code) as (endpoint, seen):
        given = options_of(scheme, endpoint)
        for words in (["info", f"{scheme}://{BUCKET}/a.zarr"], ["run", "x.npy", f"{scheme}://{BUCKET}/b.zarr"]):
            line = refused([*words, *given], elsewhere.heard)
            assert "redirects to other servers are not followed" in line
            assert scheme == "gs" or f"{endpoint} leads to {elsewhere.url}" in line
        assert seen


@pytest.mark.parametrize("spared", ["HEAD", "reblock-probe"])
def test_no_later_redirect_leads_to_another_host(elsewhere: Elsewhere, spared: str) -> None:
    """A server that answers the first request, and redirects others."""
    with leading_server(elsewhere.url, 307, spared=spared) as (endpoint, seen):
        given = options_of("s3", endpoint)
        for words in (["info", f"s3://{BUCKET}/a.zarr"], ["run", "x.npy", f"s3://{BUCKET}/b.zarr"]):
            assert "redirects to other servers are not followed" in refused([*words, *given], elsewhere.heard)
        assert any(not one.startswith("HEAD") for one in seen)


def test_another_port_is_another_server() -> None:
    there = Elsewhere("127.0.0.1")
    try:
        with leading_server(there.url, 307) as (endpoint, _):
            line = refused(["info", f"s3://{BUCKET}/a.zarr", *options_of("s3", endpoint)], there.heard)
            assert f"{endpoint} leads to {there.url}" in line
    finally:
        there.close()


def test_a_redirect_inside_a_server_is_none(s3: S3Server, bucket: str) -> None:
    """The guard does not keep requests from the server itself, under whatever name it has."""
    for host in ("127.0.0.1", "localhost"):
        connect(f"s3://{BUCKET}", {**s3.options, "aws_endpoint_url": f"http://{host}:{s3.port}"})
        result = CliRunner().invoke(application, ["run", "x.npy", f"{bucket}/{host}.zarr", "--quiet"])
        assert result.exit_code == 0, result.output
    connect(f"s3://{BUCKET}", s3.options)
