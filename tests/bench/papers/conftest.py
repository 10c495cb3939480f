"""Runs of the papers' experiments in tests do not wait for what other processes write."""

from __future__ import annotations

import os

import pytest

from peer_jobs import no_sync


@pytest.fixture(autouse=True)
def without_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sync", no_sync)
