"""One server for all tests of a process; they are skipped where PostgreSQL is not installed."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator

import pytest

from postgres_server import Server, new_folder, programs
from reblock.storage.media.postgres_url import split_key

_NUMBERS = itertools.count()


def run_server() -> Iterator[Server]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = new_folder()
    try:
        server = Server(folder)
        try:
            server.start()
            split_key(server.url)  # the user, for keys without one
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session", name="server")
def _server() -> Iterator[Server]:
    yield from run_server()


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server that a test may kill."""
    yield from run_server()


@pytest.fixture
def url(server: Server) -> str:
    """The URL of an array that nobody else uses."""
    return f"{server.url}::a{next(_NUMBERS)}"
