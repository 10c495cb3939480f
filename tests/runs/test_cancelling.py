"""Cancelling: what a run that nobody wants any more says about a store that fails."""

from __future__ import annotations

import pytest

from reblock.errors import DiskError, Interrupted
from reblock.runs.cancelling import cancellable
from reblock.storage.media.patience import is_over


def fail(path: str) -> None:
    raise DiskError(f"read {path}: it does not answer", path=path, errno=110)


def test_a_store_that_fails_a_cancelled_run_is_not_to_blame() -> None:
    with pytest.raises(Interrupted, match="the same command resumes"), cancellable(lambda: True):
        fail("s3://bucket/x.zarr")


@pytest.mark.parametrize(("path", "cancelled"), [("s3://bucket/x.zarr", False), ("/data/x.zarr", True)])
def test_other_failures_stay_what_they_are(path: str, cancelled: bool) -> None:
    with pytest.raises(DiskError, match="does not answer"), cancellable(lambda: cancelled):
        fail(path)


def test_a_store_is_asked_again_as_long_as_one_run_is_wanted() -> None:
    with cancellable(lambda: True):
        assert is_over()
        with cancellable(lambda: False):
            assert not is_over()
    assert not is_over()
