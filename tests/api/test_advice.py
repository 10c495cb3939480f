"""Advice from real arrays: predictions are what the medium counts, and the command does what it promises."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import reblock
from reblock.advisor.advice import Conversion
from reblock.api.array import Array
from reblock.cli.application import application
from reblock.errors import UsageError
from reblock.storage.media.recording import RecordingMedium

PAPER: dict[str, Any] = {
    "shape": (100, 2000, 8000),
    "dtype": "u1",
    "block_size": 8000,
    "objective": "blocks",
}
CLASSES = [{"shape": [10, 400, 10]}, {"shape": [20, 5, 400]}]


def test_the_papers_example() -> None:
    found = reblock.advise(**PAPER, access={"model": "aligned", "classes": CLASSES}).to_json()
    assert found["best"]["chunks"] == [20, 20, 20]
    assert found["best"]["blocks"] == 20
    assert found["chunk_order"] == found["order"] == [0, 2, 1]
    assert (found["model"], found["search"]) == ("aligned", "exhaustive")
    blocks = {one["method"]: one["blocks"] for one in found["candidates"]}
    assert blocks["linear"] == 2050
    assert blocks["powers of two"] == 37.5
    assert blocks["neighbourhood"] == blocks["exhaustive"] == 20
    assert blocks["2 copies"] == 5
    assert [one["classes"] for one in found["copies"]] == [[0], [1]]
    assert found["conversion"] is None
    anywhere = reblock.advise(**PAPER, access={"classes": CLASSES}).to_json()
    assert anywhere["best"]["chunks"] == [11, 22, 33]
    assert anywhere["best"]["blocks"] == pytest.approx(43.24, abs=0.005)
    json.dumps(found)


def test_the_papers_text_form_and_model(tmp_path: Path) -> None:
    path = tmp_path / "pattern.txt"
    path.write_text("2\n10 400 10 1\n20 5 400 1\n")
    assert reblock.advise(**PAPER, access=path).best.chunks == (20, 20, 20)
    assert reblock.advise(**PAPER, access=path, model="anywhere").best.chunks == (11, 22, 33)


@pytest.mark.parametrize("name", ["p.toml", "p.json", "p"])
def test_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    document = {"model": "aligned", "classes": CLASSES}
    toml = 'model = "aligned"\n' + "".join(f"[[classes]]\nshape = {one['shape']}\n" for one in CLASSES)
    for text in [json.dumps(document)] * (name != "p.toml") + [toml] * (name != "p.json"):
        path.write_text(text)
        assert reblock.advise(**PAPER, access=path).best.chunks == (20, 20, 20)


# ---------------------------------------------------------------- predictions and counts
def make(folder: Path, shape: tuple[int, ...], chunks: tuple[int, ...], name: str = "x.zarr", **options: Any) -> str:
    np.save(folder / "source.npy", np.arange(int(np.prod(shape)), dtype="<i4").reshape(shape))
    path = str(folder / name)
    reblock.repartition(str(folder / "source.npy"), path, chunks=chunks, overwrite=True, **options)
    return path


def touched(path: str, boxes: list[tuple[slice, ...]]) -> int:
    """Chunk files that reads open, counted on the medium."""
    medium = RecordingMedium()
    array = Array(medium.of(reblock.open(path).store))
    count = 0
    for box in boxes:
        medium.openings.clear()
        array[box]
        count += len({opening.key for opening in medium.openings})
    return count


@settings(max_examples=max(settings.default.max_examples // 8, 5))
@given(st.data())
def test_predicted_blocks_are_those_that_are_touched(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("reads")
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple))
    path = make(folder, shape, tuple(data.draw(st.integers(1, n)) for n in shape))
    log = folder / "access.jsonl"
    logged, boxes = reblock.open(path, log=log), []
    for _ in range(data.draw(st.integers(1, 12))):
        starts = [data.draw(st.integers(0, n - 1)) for n in shape]
        box = tuple(slice(a, data.draw(st.integers(a + 1, n))) for a, n in zip(starts, shape, strict=True))
        boxes.append(box)
        logged[box]
    advice = reblock.advise(path, log=log, block_size="1:64")
    today = advice.today
    assert today is not None
    assert advice.pattern.explained == 1
    assert today.mean.blocks * len(boxes) == pytest.approx(touched(path, boxes))
    best = make(folder, shape, tuple(advice.best.chunks or ()), "best.zarr")
    assert advice.best.mean.blocks * len(boxes) == pytest.approx(touched(best, boxes))


def test_shards_are_chosen_with_the_chunks(tmp_path: Path) -> None:
    path = make(tmp_path, (64, 64, 64), (16, 16, 16))
    advice = reblock.advise(path, access="maps,time-series", block_size="4KiB:16KiB", shards="auto", device="s3")
    assert advice.best.shards is not None
    assert all(s % c == 0 for s, c in zip(advice.best.shards, advice.best.chunks or (), strict=True))
    assert advice.best.mean.requests > advice.best.mean.blocks
    assert "--shards" in advice.command
    assert reblock.advise(path, access="maps", block_size="4KiB:16KiB").best.shards is None


def test_formats_limit_chunks(tmp_path: Path) -> None:
    described: dict[str, Any] = {"shape": (10**6, 10**6), "dtype": "f8", "access": "maps", "block_size": "1GiB:64GiB"}
    assert np.prod(reblock.advise(**described, to_format="hdf5", objective="blocks").best.chunks) * 8 < 4 << 30
    assert np.prod(reblock.advise(**described, to_format="zarr", objective="blocks").best.chunks) * 8 > 4 << 30
    blosc = reblock.advise(
        **described, to_format="zarr", objective="blocks", source_chunks=(1, 1000), source_codec="blosc:zstd:3"
    )
    assert np.prod(blosc.best.chunks) * 8 < 2 << 30
    with pytest.raises(UsageError, match="hdf5 has no shards"):
        reblock.advise(**described, to_format="hdf5", shards="auto")
    with pytest.raises(UsageError, match="npy arrays have no chunks to choose"):
        reblock.advise(**described, to_format="npy")


# ---------------------------------------------------------------- worth it?
def test_converting_pays_after_some_reads(tmp_path: Path) -> None:
    path = make(tmp_path, (64, 64, 64), (1, 64, 64))
    advice = reblock.advise(path, access="time-series", block_size="4KiB:64KiB", device="hdd")
    today, conversion = advice.today, advice.conversion
    assert today is not None
    assert conversion is not None
    assert conversion.break_even_reads is not None
    gain = today.mean.seconds - advice.best.mean.seconds
    assert conversion.seconds / gain <= conversion.break_even_reads < conversion.seconds / gain + 1
    job = reblock.plan(path, chunks=advice.best.chunks, device="hdd")
    assert conversion.seconds == pytest.approx(job.cost.seconds)
    assert conversion.bytes == job.cost.bytes_read + job.cost.bytes_written


@pytest.mark.parametrize("device", ["jukebox", "tape", "hdd"])
def test_chunks_of_today_cost_what_the_same_chunks_cost_tomorrow(device: str) -> None:
    """Also on media that are mounted and wound: distance counts for both."""
    asked: dict[str, Any] = {"shape": (1000, 2000, 4000), "dtype": "f4", "access": "time-series,maps", "device": device}
    best = reblock.advise(**asked).best
    today = reblock.advise(**asked, source_chunks=best.chunks).today
    assert today is not None
    assert today.mean.seconds == pytest.approx(best.mean.seconds, rel=0.01)


def test_converting_that_never_pays() -> None:
    assert Conversion.of(5.0, 1, before=1.0, after=1.0).break_even_reads is None
    assert Conversion.of(5.0, 1, before=1.0, after=2.0).break_even_reads is None
    assert Conversion.of(5.0, 1, before=2.0, after=1.0).break_even_reads == 5
    assert Conversion.of(0.1, 1, before=2.0, after=1.0).break_even_reads == 1


def test_what_is_best_already_needs_no_conversion(tmp_path: Path) -> None:
    path = make(tmp_path, (64, 64, 64), (8, 8, 8))
    first = reblock.advise(path, access="cubes", block_size="1KiB:8KiB")
    path = make(tmp_path, (64, 64, 64), tuple(first.best.chunks or ()))
    again = reblock.advise(path, access="cubes", block_size="1KiB:8KiB")
    assert again.conversion == Conversion(0.0, 0, None)
    assert again.command == ""
    assert "the array has these chunks already" in again.notes


def test_too_little_memory_is_told(tmp_path: Path) -> None:
    path = make(tmp_path, (64, 64, 64), (64, 64, 1))
    advice = reblock.advise(path, access="maps", memory="1KiB")
    assert advice.conversion is None
    assert any("needs at least" in note for note in advice.notes)


@pytest.mark.parametrize("name", ["x.npy", "x y.zarr", "x.h5", "y.h5::/a/t2m", "y.zarr::a/t2m", "folder"])
def test_the_command_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(40 * 40 * 8, dtype="<f4").reshape(40, 40, 8))
    source = "a.npy"
    if name != "x.npy":
        to_format = "blocks" if name == "folder" else None
        reblock.repartition("a.npy", name, chunks=(1, 40, 8), to_format=to_format)
        source = name
    for _ in range(2):
        advice = reblock.advise(source, access="time-series", block_size="64:4KiB", memory="8MiB")
        words = shlex.split(advice.command)
        result = CliRunner().invoke(application, words[1:])
        assert result.exit_code == 0, result.output
        assert reblock.open(words[3]).chunks == advice.best.chunks
        assert reblock.verify("a.npy", words[3]).equal
        # A program that knows the array by its name finds it again.
        assert words[3].partition("::")[2] == reblock.open(source).store.location.partition("::")[2].strip("/")
    made = words[3].partition("::")[0]
    assert made.rstrip("/").rpartition(".")[0].endswith("-chunked-2") or made.endswith("-chunked-2/")


def test_the_command_names_the_disks_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(40 * 40 * 8, dtype="<f4").reshape(40, 40, 8))
    for disk in ("disk 1", "disk 2"):
        (tmp_path / disk).mkdir()
    reblock.repartition("a.npy", "folder/", chunks=(1, 40, 8), disks="disk 1,disk 2")
    allowed = ["disk 1", "disk 2"]
    advice = reblock.advise("folder/", access="time-series", block_size="64:4KiB", allow_external=allowed)
    words = shlex.split(advice.command)
    result = CliRunner().invoke(application, words[1:])
    assert result.exit_code == 0, result.output
    assert reblock.verify("a.npy", words[3]).equal


# ---------------------------------------------------------------- mistakes
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"access": {"classes": []}}, "no classes"),
        ({"access": "map"}, "'map' is neither a file nor a preset of accesses: presets are time-series"),
        ({"access": "maps", "log": "x"}, "give access or log, not both"),
        ({"access": "maps", "copies": 2}, "2 copies for 1 classes"),
        ({"access": "maps", "copies": 0}, "at least 1, not 0"),
        ({"access": "maps", "objective": "seeks"}, "objective must be time, blocks, bytes or requests"),
        ({"access": "maps", "block_size": "0"}, "a size above 0 or a range"),
        ({"access": "maps", "block_size": "2MiB:1MiB"}, "a size above 0 or a range"),
        ({"access": "maps", "block_size": "2:"}, "cannot read the size"),
        ({"access": "maps", "model": "positions"}, "aligned or anywhere, not 'positions'"),
        ({"model": "aligned"}, "is for a pattern"),
        ({"access": "maps", "shards": "3,3"}, "shards must be auto or none"),
        ({"access": "maps", "shape": (0, 4)}, "has no elements to read"),
        ({"access": "maps", "dtype": None}, "advice without a source needs shape and dtype"),
        ({"access": "maps", "device": "floppy"}, "unknown device 'floppy'"),
    ],
)
def test_mistakes(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reblock.advise(**{"shape": (4, 4, 4), "dtype": "f4", **changes})


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    for text, message in (
        ("classes = 3", "are a list"),
        ("[[classes]", "not valid TOML"),
        ("{", "not valid JSON"),
        ("\udcff", "not text"),
        ("3\n1 1 1 1", "promises 3 classes"),
    ):
        path = tmp_path / "bad"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(UsageError, match=rf"the access pattern in .*bad cannot be used: .*{message}"):
            reblock.advise(shape=(4, 4, 4), dtype="f4", access=path)


def test_a_source_and_its_description(tmp_path: Path) -> None:
    path = make(tmp_path, (4, 4), (2, 2))
    with pytest.raises(UsageError, match="describe a source that is not given"):
        reblock.advise(path, shape=(4, 4), access="maps")


def test_without_accesses_the_default_is_shown(tmp_path: Path) -> None:
    path = make(tmp_path, (64, 64, 64), (1, 64, 64))
    advice = reblock.advise(path, block_size="32KiB")
    assert advice.best.method == "default"
    assert [one.method for one in advice.candidates] == ["today", "default"]
    assert advice.to_json()["model"] == "none"
