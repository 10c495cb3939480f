"""Bad input gives one clear error and exit 1, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import reblock

Call = Callable[..., Result]
Look = Callable[[Path], dict[str, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good array and many bad ones."""
    folder = tmp_path_factory.mktemp("made")
    np.save(folder / "x.npy", np.arange(20 * 30, dtype="<i4").reshape(20, 30))
    for name in ("good.zarr", "good.h5", "good/"):
        reblock.repartition(folder / "x.npy", f"{folder}/{name}", chunks=(5, 5))
    (folder / "file.bin").write_bytes(bytes(range(256)))
    (folder / "folder").mkdir()
    (folder / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\x40\x00{'descr': 'nonsense'")
    (folder / "short.npy").write_bytes((folder / "x.npy").read_bytes()[:-7])
    (folder / "empty.npy").write_bytes(b"")
    for name in ("text.zarr", "shape.zarr"):
        shutil.copytree(folder / "good.zarr", folder / name)
    (folder / "text.zarr" / "zarr.json").write_text("{ this is no JSON")
    metadata = json.loads((folder / "good.zarr" / "zarr.json").read_text())
    (folder / "shape.zarr" / "zarr.json").write_text(json.dumps({**metadata, "shape": [-4, "x"]}))
    shutil.copytree(folder / "good", folder / "badblocks")
    (manifest,) = (path for path in (folder / "badblocks").iterdir() if path.suffix == ".json")
    manifest.write_text("[]")
    (folder / "half.h5").write_bytes((folder / "good.h5").read_bytes()[:700])
    (folder / "link.npy").symlink_to("x.npy")
    return folder


@pytest.fixture
def rubbish(here: Path, made: Path) -> Path:
    """A copy of it to work in."""
    shutil.copytree(made, here, symlinks=True, dirs_exist_ok=True)
    return here


CHUNKS = ["--chunks", "5,5"]
CASES: dict[str, tuple[list[str], str, str]] = {
    # missing
    "source missing": (["nope.npy", "y.zarr", *CHUNKS], "DiskError", "nope.npy"),
    "source name empty": (["", "y.zarr", *CHUNKS], "UsageError", "empty"),
    "inner path missing": (["good.h5::nope", "y.zarr", *CHUNKS], "", "nope"),
    "source a URL": (["ftp://host/x.zarr", "y.zarr", *CHUNKS], "UsageError", "URL"),
    # unknown formats
    "content unknown": (["file.bin", "y.zarr", *CHUNKS], "FormatError", "--from"),
    "folder without an array": (["folder", "y.zarr", *CHUNKS], "FormatError", "folder"),
    "ending unknown": (["x.npy", "y.xyz", *CHUNKS], "UsageError", "--to"),
    "--from unknown": (["x.npy", "y.zarr", *CHUNKS, "--from", "tape"], "UsageError", "tape"),
    "--to unknown": (["x.npy", "y.zarr", *CHUNKS, "--to", "tape"], "UsageError", "tape"),
    "--from wrong": (["x.npy", "y.zarr", *CHUNKS, "--from", "hdf5"], "", "x.npy"),
    # corrupt metadata
    "npy header": (["header.npy", "y.zarr", *CHUNKS], "", "header.npy"),
    "npy cut short": (["short.npy", "y.zarr", *CHUNKS], "", "short.npy"),
    "npy of no bytes": (["empty.npy", "y.zarr", *CHUNKS], "", "empty.npy"),
    "zarr.json no JSON": (["text.zarr", "y.zarr", *CHUNKS], "", "text.zarr"),
    "zarr.json nonsense": (["shape.zarr", "y.zarr", *CHUNKS], "", "shape.zarr"),
    "blocks manifest": (["badblocks", "y.zarr", *CHUNKS], "", "badblocks"),
    "hdf5 cut short": (["half.h5", "y.zarr", *CHUNKS], "", "half.h5"),
    # chunks
    "rank too small": (["x.npy", "y.zarr", "--chunks", "time=5,5"], "UsageError", "'5'"),
    "rank too large": (["x.npy", "y.zarr", "--chunks", "5,5,5"], "UsageError", "3"),
    "zero": (["x.npy", "y.zarr", "--chunks", "0,5"], "UsageError", "0"),
    "negative": (["x.npy", "y.zarr", "--chunks", "-2,5"], "UsageError", "-2"),
    "fraction": (["x.npy", "y.zarr", "--chunks", "2.5,5"], "UsageError", "2.5"),
    "word": (["x.npy", "y.zarr", "--chunks", "five,5"], "UsageError", "five"),
    "empty": (["x.npy", "y.zarr", "--chunks", ""], "UsageError", "axes"),
    "huge": (["x.npy", "y.zarr", "--chunks", "99999999999999999999,5"], "UsageError", "99999999999999999999"),
    "wrong sum": (["x.npy", "y/", "--chunks", "3+3,5"], "UsageError", "20"),
    "unknown axis": (["x.npy", "y.zarr", "--chunks", "time=5"], "UsageError", "time"),
    "shards that cut chunks": (["x.npy", "y.zarr", *CHUNKS, "--shards", "7,7"], "UsageError", "7"),
    # other values
    "memory a word": (["x.npy", "y.zarr", *CHUNKS, "--memory", "lots"], "UsageError", "lots"),
    "memory nothing": (["x.npy", "y.zarr", *CHUNKS, "--memory", "0"], "UsageError", "1 byte"),
    "memory negative": (["x.npy", "y.zarr", *CHUNKS, "--memory", "-5"], "UsageError", "-5"),
    "memory too small": (["x.npy", "y.zarr", *CHUNKS, "--memory", "10"], "InfeasibleError", "needs at least"),
    "strategy": (["x.npy", "y.zarr", *CHUNKS, "--strategy", "luck"], "UsageError", "luck"),
    "objective": (["x.npy", "y.zarr", *CHUNKS, "--objective", "fame"], "UsageError", "fame"),
    "device": (["x.npy", "y.zarr", *CHUNKS, "--device", "drum"], "UsageError", "drum"),
    "device file": (["x.npy", "y.zarr", *CHUNKS, "--device", "file.bin"], "UsageError", "file.bin"),
    "device folder": (["x.npy", "y.zarr", *CHUNKS, "--device", "folder"], "UsageError", "folder"),
    "target device": (["x.npy", "y.zarr", *CHUNKS, "--target-device", "drum"], "UsageError", "drum"),
    "scratch limit": (["x.npy", "y.zarr", *CHUNKS, "--scratch-limit", "lots"], "UsageError", "lots"),
    "scratch objects": (["x.npy", "y.zarr", *CHUNKS, "--scratch-objects", "-1"], "UsageError", "-1"),
    "on missing": (["x.npy", "y.zarr", *CHUNKS, "--on-missing", "pray"], "UsageError", "pray"),
    "codec": (["x.npy", "y.zarr", *CHUNKS, "--codec", "magic"], "UsageError", "magic"),
    "codec level": (["x.npy", "y.zarr", *CHUNKS, "--codec", "gzip:99"], "UsageError", "99"),
    "dtype": (["x.npy", "y.zarr", *CHUNKS, "--dtype", "f3"], "UsageError", "f3"),
    "dtype of objects": (["x.npy", "y.zarr", *CHUNKS, "--dtype", "O"], "UsageError", "O"),
    "transpose": (["x.npy", "y.zarr", *CHUNKS, "--transpose", "0,2"], "UsageError", "no axis 2"),
    "transpose twice": (["x.npy", "y.zarr", *CHUNKS, "--transpose", "0,0"], "UsageError", "0,0"),
    "region outside": (["x.npy", "y.zarr", *CHUNKS, "--region", "0:99,:"], "UsageError", "99"),
    "region with a step": (["x.npy", "y.zarr", *CHUNKS, "--region", "0:9:2,:"], "UsageError", "step"),
    "region of words": (["x.npy", "y.zarr", *CHUNKS, "--region", "a:b,:"], "UsageError", "a"),
    # targets
    "target exists": (["x.npy", "good.zarr", *CHUNKS], "TargetExistsError", "--overwrite"),
    "target a file that exists": (["good.zarr", "file.bin", *CHUNKS, "--to", "npy"], "TargetExistsError", "file.bin"),
    "target the source": (["x.npy", "x.npy", *CHUNKS], "UsageError", "x.npy"),
    "target the source, to be replaced": (["x.npy", "x.npy", *CHUNKS, "--overwrite"], "UsageError", "overlap"),
    "target a link to the source": (["x.npy", "link.npy", "--overwrite"], "UsageError", "overlap"),
    "source a link to the target": (["link.npy", "x.npy", "--overwrite"], "UsageError", "overlap"),
    "target inside the source": (["good.zarr", "good.zarr/y.zarr", *CHUNKS], "UsageError", "overlap"),
    "target around the source": (["good.zarr", ".", "--to", "blocks", "--overwrite", *CHUNKS], "UsageError", "overlap"),
    "target's folder missing": (["x.npy", "nowhere/y.zarr", *CHUNKS], "DiskError", "nowhere"),
    "target below a file": (["good.zarr", "file.bin/y.zarr", *CHUNKS], "DiskError", "file.bin"),
    "target in an unwritable folder": (["x.npy", "/proc/self/y.zarr", *CHUNKS], "DiskError", "/proc/self"),
    "target name empty": (["x.npy", "", *CHUNKS], "UsageError", "empty"),
    "target name too long": (["x.npy", "y" * 300 + ".zarr", *CHUNKS], "DiskError", "ENAMETOOLONG"),
    "target name with a NUL": (["x.npy", "y\0.zarr", *CHUNKS], "UsageError", "NUL"),
}


def unstaged(line: str) -> str:
    """A message without the random part of a staging folder's name."""
    return re.sub(r"\.reblock-\w+", ".reblock-…", line)


@pytest.mark.parametrize("case", CASES)
def test_one_clear_error_and_nothing_left(rubbish: Path, call: Call, look: Look, read: Any, case: str) -> None:
    words, kind, says = CASES[case]
    before = look(rubbish)
    result = call("run", *words)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("reblock: error: ")
    assert "internal error" not in line
    assert says in line
    result = call("run", *words, "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    error = read(result.stdout)["error"]
    assert set(error) == {"type", "message", "needs_memory_bytes"}
    assert unstaged(f"reblock: error: {error['message']}") == unstaged(line)
    raised = getattr(reblock, error["type"])
    assert issubclass(raised, reblock.ReblockError)
    assert not kind or issubclass(raised, getattr(reblock, kind)), error
    assert (error["needs_memory_bytes"] is not None) == (error["type"] == "InfeasibleError")
    assert look(rubbish) == before


@pytest.mark.parametrize(
    "case",
    ["source missing", "content unknown", "npy header", "zarr.json no JSON", "blocks manifest", "hdf5 cut short"],
)
@pytest.mark.parametrize("command", ["info", "plan", "verify"])
def test_the_other_commands_say_the_same(rubbish: Path, call: Call, look: Look, case: str, command: str) -> None:
    words, _, says = CASES[case]
    before = look(rubbish)
    more = ["x.npy"] if command == "verify" else []
    code = 2 if command == "verify" else 1  # for verify, 1 is an answer
    result = call(command, words[0], *more)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert result.stderr == call("run", *words).stderr
    assert look(rubbish) == before


TARGETS = [
    ("y.zarr", "none"),
    ("y.zarr", "gzip:1"),
    ("y.h5", "none"),
    ("y.h5", "gzip:1"),
    ("y/", "none"),
    ("y.npy", "none"),
]


@pytest.mark.parametrize(("name", "codec"), TARGETS)
def test_the_budget_that_is_asked_for_is_enough(
    here: Path, sample: Any, call: Call, look: Look, name: str, codec: str
) -> None:
    words = ["run", "x.npy", name, "--chunks", "10,10", "--codec", codec, "--json"]
    before = look(here)
    refused = call(*words, "--memory", "1")
    assert refused.exit_code == 1
    error = json.loads(refused.stdout)["error"]
    assert error["type"] == "InfeasibleError"
    needs = error["needs_memory_bytes"]
    assert f"({needs} bytes)" in error["message"]
    assert look(here) == before
    done = call(*words, "--memory", needs)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["measured"]["peak_bytes"] <= needs
    assert np.array_equal(reblock.open(name)[...], sample)


@pytest.mark.parametrize(("name", "codec"), TARGETS)
def test_a_byte_less_than_is_asked_for_is_refused(here: Path, sample: Any, call: Call, name: str, codec: str) -> None:
    words = ["plan", "x.npy", name, "--chunks", "10,10", "--codec", codec, "--json"]
    needs = json.loads(call(*words, "--memory", "1").stdout)["error"]["needs_memory_bytes"]
    assert call(*words, "--memory", needs).exit_code == 0
    assert call(*words, "--memory", needs - 1).exit_code == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--shape", "9,9"], "--source-chunks"),
        (["--shape", "9,9", "--dtype", "u1", "--source-chunks", "3,3"], "--chunks"),
        (["--shape", "9,-9", "--dtype", "u1", "--source-chunks", "3,3", "--chunks", "3,3"], "-9"),
        (["--shape", "9,9", "--dtype", "u1", "--source-chunks", "3,3,3", "--chunks", "3,3"], "2"),
        (["--shape", "9,9", "--dtype", "u1", "--source-chunks", "3,3", "--chunks", "3,0"], "0"),
        (["--shape", "nine", "--dtype", "u1", "--source-chunks", "3", "--chunks", "3"], "nine"),
        (["x.npy", "--shape", "9,9"], "--shape"),
        (["x.npy", "--memory-model", "none"], "none"),
    ],
)
def test_plans_of_nothing(here: Path, sample: Any, call: Call, words: list[str], says: str) -> None:
    result = call("plan", *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr


def test_names_of_any_bytes_give_one_line(here: Path, call: Call) -> None:
    for name in ("a\nb.npy", "a\x1b[31mb.npy", os.fsdecode(b"a\xffb.npy")):
        result = call("info", name)
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert line.isprintable()
        error = json.loads(call("info", name, "--json").stdout)["error"]
        assert error["message"] in line
