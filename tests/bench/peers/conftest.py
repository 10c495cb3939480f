"""A faster way to start the scripts of a race: fork them from a process that has imported their libraries."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from typing import IO

import pytest

from peer_jobs import no_sync, run_script_here
from reblock.bench.peers import run as peers_run

SCRIPTS = [f"reblock.bench.peers.scripts.{name}" for name in ("h5py", "make", "reblock", "verify", "zarr_python")]


@pytest.fixture(scope="session")
def fork_server() -> ForkServerContext:
    """Forks processes from one that has imported what scripts import."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["__main__", "peer_jobs", *SCRIPTS])
    return context


@pytest.fixture
def forked_scripts(fork_server: ForkServerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts of our own interpreter run in forked processes: the same code without imports and syncs."""

    def run_process(words: list[str], messages: IO[bytes]) -> int:
        assert words[0] == sys.executable
        process = fork_server.Process(target=run_script_here, args=(*words[-2:], messages.name))
        process.start()
        process.join()
        return process.exitcode or 0

    monkeypatch.setattr(peers_run, "_run_process", run_process)
    monkeypatch.setattr(os, "sync", no_sync)
