"""What is known of objects without another request: it grows old, is dropped when an object changes, and is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from reblock.model.medium import Status
from reblock.storage.media import object_known
from reblock.storage.media.object_known import KnownObjects

STATUS = Status(10, 1, 2, 2)


def test_a_status_is_remembered_until_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("reblock.storage.media.object_known.time.monotonic", lambda: now[0])
    known = KnownObjects()
    assert (known.get("a"), known.is_old("a"), "a" in known) == (None, False, False)
    known.remember("a", STATUS, "tag")
    assert (known.get("a"), known.is_old("a"), "a" in known) == ((STATUS, "tag"), False, True)
    now[0] += 61
    assert known.is_old("a")
    known.remember("a", STATUS, None)
    assert (known.get("a"), known.is_old("a")) == ((STATUS, None), False)


def test_what_changes_is_forgotten() -> None:
    known = KnownObjects()
    for key in ("x/a", "x/b", "xy"):
        known.remember(key, STATUS, None)
        known.note_written(key, 7, 8)
    known.forget("xy")
    known.forget_below("x")
    assert [key for key in ("x/a", "x/b", "xy") if key in known] == []
    assert known.take_written(["x/a", "xy"]) == {"x/a": (7, 8), "xy": None}
    assert known.take_written(["x/a"]) == {"x/a": None}


@pytest.mark.parametrize(("limit", "note"), [("_MOST_REMEMBERED", "remember"), ("_MOST_WRITTEN", "note_written")])
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, limit: str, note: str) -> None:
    monkeypatch.setattr(object_known, limit, 4)
    known, more = KnownObjects(), {"remember": (STATUS, None), "note_written": (1, 2)}[note]
    for number in range(9):
        getattr(known, note)(str(number), *more)
    kept: Any = [key for key in map(str, range(9)) if key in known or known.take_written([key])[key]]
    assert 0 < len(kept) <= 4
