"""What runs leave for later ones: one small file that is always whole, and never in the way."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from reblock.runs import experience
from reblock.runs.experience import MAX_BYTES, MAX_SAMPLES, RUNS, Sample, keep, recall

DISK = "/dev/disk"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where measurements are kept in this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("REBLOCK_CACHE")
    return tmp_path / "reblock" / "speeds.json"


def content(**subjects: Any) -> str:
    return json.dumps({"version": 1, "hosts": {os.uname().nodename: subjects}})


def test_nothing_is_known_at_first(file: Path) -> None:
    assert recall().value(DISK, "read large") is None
    assert recall().runs(DISK) == 0
    assert not file.exists(), "who only asks writes nothing"


def test_what_is_taken_is_the_median_of_the_last_runs(file: Path) -> None:
    values = [1e9, 7e9, 2e9, 3e9, 9e9, 4e9, 5e9, 6e9, 8e9, 1e8, 2e8]
    for number, value in enumerate(values, 1):
        keep([Sample(DISK, "read large", value), Sample(DISK, RUNS, 1)])
        assert recall().value(DISK, "read large") == median(values[:number][-MAX_SAMPLES:])
    assert recall().samples[DISK]["read large"] == values[-MAX_SAMPLES:]
    assert recall().runs(DISK) == len(values)


def test_only_the_file_is_left_and_only_we_read_it(file: Path) -> None:
    keep([Sample(DISK, "read large", 1e9)])
    assert os.listdir(file.parent) == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_hosts_are_kept_apart(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep([Sample(DISK, "read large", 1e9)])
    monkeypatch.setattr(experience, "_host", lambda: "other")
    assert recall().value(DISK, "read large") is None
    keep([Sample(DISK, "read large", 2e9)])
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file.parent.parent))
    monkeypatch.delenv("REBLOCK_CACHE")
    assert recall().value(DISK, "read large") == 1e9
    assert len(json.loads(file.read_text())["hosts"]) == 2


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no"])
def test_it_can_be_switched_off(file: Path, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    keep([Sample(DISK, "read large", 1e9)])
    before = file.read_bytes()
    monkeypatch.setenv("REBLOCK_CACHE", word)
    assert recall().value(DISK, "read large") is None
    keep([Sample(DISK, "read large", 2e9)])
    assert file.read_bytes() == before


def test_it_lies_in_the_home_folder_where_no_other_is_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        keep([Sample(DISK, "read large", 1e9)])
        assert recall().value(DISK, "read large") == 1e9
    assert (tmp_path / "home" / ".cache" / "reblock" / "speeds.json").exists()
    assert not file.exists()


# ---------------------------------------------------------------- whatever is there
DEEP = "[" * 100_000
HOSTILE = {
    "empty": "",
    "no JSON": "hello",
    "bytes": "\udcff\udcfe",
    "another version": json.dumps({"version": 2, "hosts": {}}),
    "a list": "[]",
    "null": "null",
    "deep": DEEP,
    "hosts are a list": json.dumps({"version": 1, "hosts": [1, 2]}),
    "a host is a number": json.dumps({"version": 1, "hosts": {os.uname().nodename: 3}}),
    "a subject is text": content(**{DISK: "fast"}),
    "samples are an object": content(**{DISK: {"read large": {"a": 1}}}),
    "samples are words": content(**{DISK: {"read large": ["1e9", None, [], {}, True]}}),
    "no numbers": content(**{DISK: {"read large": [1, -1, 0]}}).replace("[1,", "[NaN, Infinity, -Infinity, 1e99,"),
    "endless integers": content(**{DISK: {"read large": [1]}}).replace("[1]", f"[{'9' * 4000}]"),
    "too many subjects": content(**{f"disk {n}": {"read large": [1e9]} for n in range(1000)}, **{DISK: {"x": [1]}}),
    "too large": content(**{DISK: {"read large": [1e9]}}) + " " * MAX_BYTES,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_ours_counts_as_nothing_and_is_replaced(file: Path, name: str) -> None:
    file.parent.mkdir()
    file.write_bytes(HOSTILE[name].encode(errors="surrogateescape"))
    assert recall().value(DISK, "read large") is None
    keep([Sample(DISK, "read large", 1e9)])
    assert recall().value(DISK, "read large") == 1e9


def test_sound_samples_among_others_are_taken(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(content(**{DISK: {"read large": [None, 2e9, -1, "x", 4e9], "write large": "x"}, "": {}}))
    assert recall().value(DISK, "read large") == 3e9
    assert recall().value(DISK, "write large") is None


def test_a_pipe_does_not_block_and_a_link_is_not_followed(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    os.mkfifo(file)
    assert recall().samples == {}
    keep([Sample(DISK, "read large", 1e9)])
    assert recall().value(DISK, "read large") == 1e9
    other = tmp_path / "precious.json"
    other.write_text(file.read_text())
    file.unlink()
    file.symlink_to(other)
    assert recall().samples == {}
    before = other.read_bytes()
    keep([Sample(DISK, "read large", 2e9)])
    assert other.read_bytes() == before
    assert not file.is_symlink()


def test_a_file_of_somebody_else_is_not_read(file: Path) -> None:
    keep([Sample(DISK, "read large", 1e9)])
    try:
        os.chown(file, os.getuid() + 1, -1)
    except PermissionError:
        pytest.skip("only root can give files away")
    assert recall().samples == {}


def test_where_nothing_can_be_written_nothing_happens(file: Path, tmp_path: Path) -> None:
    file.parent.write_text("a file where the folder would be")
    keep([Sample(DISK, "read large", 1e9)])
    assert recall().samples == {}
    assert file.parent.read_text().startswith("a file")
    file.parent.unlink()
    file.mkdir(parents=True)
    (file / "x").write_text("")
    keep([Sample(DISK, "read large", 1e9)])
    assert recall().samples == {}
    assert os.listdir(file.parent) == [file.name], "nothing of an attempt stays"


def test_samples_that_cannot_be_are_not_kept(file: Path) -> None:
    keep(
        [
            Sample(DISK, "read large", float("nan")),
            Sample(DISK, "read large", -1.0),
            Sample(DISK, "encode " + "x" * 1000, 1e9),
            Sample("", "read large", 1e9),
        ]
    )
    assert not file.exists()


def test_it_stays_small(file: Path) -> None:
    for number in range(300):
        keep([Sample(f"/dev/{number}", f"read {n}" + "é" * 100, 1e9) for n in range(70)])
    assert file.stat().st_size <= MAX_BYTES
    known = recall().samples
    assert "/dev/299" in known, "what was used last stays"
    assert "/dev/0" not in known
    assert max(map(len, known.values())) <= experience.MAX_QUANTITIES


# ---------------------------------------------------------------- several at once
def test_readers_never_see_half_of_it(file: Path) -> None:
    keep([Sample(DISK, "read large", 1e9)])

    def write(number: int) -> None:
        keep([Sample(DISK, "read large", 1e9), Sample(f"disk {number % 20}", "write large", 1e9)])

    def read(_: int) -> float | None:
        json.loads(file.read_text())
        return recall().value(DISK, "read large")

    with ThreadPoolExecutor(4) as pool:
        writing = pool.map(write, range(200))
        found = set(pool.map(read, range(200)))
        list(writing)
    assert found == {1e9}
    assert os.listdir(file.parent) == [file.name]


def test_who_dies_while_writing_leaves_what_was_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep([Sample(DISK, "read large", 1e9)])

    def fail(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "replace", fail)
    keep([Sample(DISK, "read large", 2e9)])
    monkeypatch.undo()
    assert json.loads(file.read_text())
    assert os.listdir(file.parent) == [file.name]
    assert sys.getrecursionlimit() < len(DEEP), "or the deep file would be none"
