"""Requests: how many run at once, which failures are repeated, and for how long."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reblock.errors import DiskError
from reblock.storage.media import requests
from reblock.storage.media.registry import connect, medium_of
from reblock.storage.media.requests import MAX_REQUESTS, Gate, send
from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for


class GenericError(Exception):
    """As the library calls it."""


def test_the_number_of_requests_follows_the_server() -> None:
    """It begins small, grows with successes up to a limit, is halved when refused, and never falls below one."""
    gate = Gate()
    first = gate.limit
    assert first <= 8
    for _ in range(10):
        send(gate, "s3://b/k", "read", lambda: None)
    assert first < gate.limit <= first + 10
    for _ in range(1000):
        gate.succeeded()
    assert gate.limit == MAX_REQUESTS
    sent = time.monotonic()
    gate.too_busy(sent)
    assert gate.limit == MAX_REQUESTS // 2
    # Requests that were sent before do not count again.
    for _ in range(100):
        gate.too_busy(sent)
    assert gate.limit == MAX_REQUESTS // 2
    for _ in range(100):
        gate.too_busy(time.monotonic())
    assert gate.limit == 1


def test_mistakes_of_the_library() -> None:
    """Its exception for them is no Exception."""

    class PanicException(BaseException):
        pass

    def request() -> None:
        raise PanicException("called `Result::unwrap()` on an `Err` value")

    with pytest.raises(DiskError, match="the client of object stores has failed"):
        send(Gate(), "s3://b/k", "read", request)


def test_no_more_run_at_once_than_the_limit() -> None:
    gate, running, most, lock = Gate(), 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
            assert running < MAX_REQUESTS

    with ThreadPoolExecutor(100) as threads:
        list(threads.map(lambda _: send(gate, "s3://b/k", "read", work), range(400)))
    assert 8 < most <= MAX_REQUESTS


@pytest.mark.parametrize(
    ("text", "tries"),
    [
        ("status code: 503", 3),
        ("status code: 429", 3),
        ("error sending request: connection reset", 3),
        ("status code: 400", 1),
        ("status code: 501", 1),
        ("the region is missing", 1),
    ],
)
def test_failures_that_may_pass_are_repeated(text: str, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PAUSE", 0.001)
    gate, made = Gate(), 0

    def request() -> str:
        nonlocal made
        made += 1
        if made < tries or tries == 1:
            raise GenericError(text)
        return "done"

    if tries == 1:
        with pytest.raises(DiskError):
            send(gate, "s3://b/k", "read", request)
    else:
        assert send(gate, "s3://b/k", "read", request) == "done"
    assert made == tries


def test_a_busy_server_gets_fewer_requests(s3: S3Server, bucket: str) -> None:
    """Through a proxy that refuses every request for a moment, as a throttling store does."""
    with Proxy(s3.port) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        medium = medium_of(bucket)
        for number in range(60):
            medium.write(f"{bucket}/{number % 3}", [b"x"])
        before = medium.gate.limit
        assert before > 16
        proxy.busy = 1.0
        with ThreadPoolExecutor(4) as threads:
            writes = [threads.submit(medium.write, f"{bucket}/busy-{number}", [b"x"]) for number in range(4)]
            while proxy.faults["busy"] < 8:
                time.sleep(0.01)
            proxy.busy = 0.0
            for write in writes:
                write.result(60)
        assert medium.gate.limit < before // 2
    connect(f"s3://{BUCKET}", s3.options)


def test_a_server_that_never_answered_has_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PAUSE", 0.001)
    for text, most in (("error sending request", 0.05), ("status code: 503", 60.0)):
        made, began = 0, time.monotonic()

        def request(text: str = text) -> str:
            nonlocal made
            made += 1
            if made < 9:
                raise GenericError(text)
            return "done"

        if most < 1:
            with pytest.raises(DiskError):
                send(Gate(), "s3://b/k", "read", request, 60.0, most)
            assert time.monotonic() - began < 30
        else:
            assert send(Gate(), "s3://b/k", "read", request, 60.0, 0.05) == "done"
