"""Surveys find what looking at each object finds, with far fewer requests."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from reblock.model.medium import Status
from reblock.storage.media import object_survey
from reblock.storage.media.registry import connect, medium_of
from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for

#: Grids of keys: their counts, and what is between the numbers.
GRIDS = (((3, 3, 11), "/"), ((60,), "/"), ((2, 12), "."))


@pytest.fixture(scope="module")
def filled(s3: S3Server) -> list[dict[str, Status | None]]:
    """Keys of grids, and what looking at each shows; some are missing."""
    connect(f"s3://{BUCKET}", s3.options)
    grids, random_ = [], random.Random(5)
    medium = medium_of(f"s3://{BUCKET}")
    for number, (counts, between) in enumerate(GRIDS):
        names = [""]
        for count in counts:
            names = [f"{name}{between if name else ''}{index}" for name in names for index in range(count)]
        keys = [f"s3://{BUCKET}/survey/{number}/c/{name}" for name in names]
        with ThreadPoolExecutor(8) as threads:
            written = [key for key in keys if random_.random() > 0.1]
            list(threads.map(lambda key: medium.write(key, [key.encode()]), written))
            found = threads.map(lambda key: object_survey._look(medium, key), keys)
            grids.append(dict(zip(keys, found, strict=True)))
    return grids


@pytest.mark.parametrize("pages", [1000, 7])
def test_surveys_are_right(filled: list[dict[str, Status | None]], pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_survey, "PAGE", pages)
    medium, random_ = medium_of(f"s3://{BUCKET}"), random.Random(pages)
    for alone in filled:
        keys = list(alone)
        assert None in alone.values()
        for count in (len(keys), len(keys) // 2, 9, 2):
            some = random_.sample(keys, count)
            assert medium.survey(some) == [alone[key] for key in some]
            some = sorted(some)
            assert medium.survey(["", *some]) == [None, *(alone[key] for key in some)]
    assert medium.survey([]) == []


def test_surveys_take_few_requests(filled: list[dict[str, Status | None]], s3: S3Server) -> None:
    with Proxy(s3.port) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        # The first request is preceded by a look for redirects.
        medium_of(f"s3://{BUCKET}").survey([f"s3://{BUCKET}/nothing"])
        for keys in filled:
            before = sum(proxy.counts.values())
            medium_of(f"s3://{BUCKET}").survey(list(keys))
            assert sum(proxy.counts.values()) == before + 1
    connect(f"s3://{BUCKET}", s3.options)
