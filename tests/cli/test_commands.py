"""The commands say what DESIGN says they say."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import Result

import reblock
from reblock import api
from reblock.cli.application import application

Call = Callable[..., Result]
Ask = Callable[..., Any]
SHAPES = [
    "plan",
    "--shape",
    "140,140,140",
    "--dtype",
    "u2",
    "--source-chunks",
    "35,35,35",
    "--chunks",
    "35,70,35",
    "--memory",
    "1GiB",
]
COST = {
    "opens",
    "seeks",
    "bytes_read",
    "bytes_written",
    "read_amplification",
    "write_amplification",
    "scratch_bytes",
    "peak_bytes",
    "held_bytes",
    "seconds",
}
PLAN = {"strategy", "problem", "lower_bound_seeks", "search", "passes", "cost", "alternatives"}
PASS = {
    "read_chunks",
    "write_chunks",
    "task_chunks",
    "order",
    "tasks",
    "steps",
    "live_elements",
    "source",
    "target",
}
RUN = {"measured", "digest", "elapsed_seconds", "tasks", "write_boxes", "resumed_boxes", "missing_chunks"}


def assert_plan(made: Any) -> None:
    assert set(made) >= PLAN
    assert set(made["cost"]) >= COST
    for one in made["passes"]:
        assert set(one) >= PASS
        for side in ("source", "target"):
            assert set(one[side]) == {"opens", "runs", "seeks", "bytes"}
    assert made["alternatives"][0]["rejected"] is None
    for other in made["alternatives"]:
        assert set(other) == {"strategy", "cost", "rejected"}


# ---------------------------------------------------------------- plan
def test_a_plan_from_shapes_alone(ask: Ask, here: Path) -> None:
    made = ask(*SHAPES)
    assert_plan(made)
    assert made["lower_bound_seeks"] == 96
    assert made["cost"]["seeks"] == 96
    assert made["cost"]["seeks"] == sum(one[side]["seeks"] for one in made["passes"] for side in ("source", "target"))
    assert made["problem"]["memory_bytes"] == 2**30
    assert list(here.iterdir()) == []


def test_a_plan_for_people(call: Call) -> None:
    result = call(*SHAPES)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "96 seeks: 64 source objects + 32 target objects" in result.stdout
    assert "why not" in result.stdout
    assert "alternative:" not in result.stdout
    assert "alternative: baseline" in call(*SHAPES, "--all").stdout
    assert call(*SHAPES).stdout == result.stdout


def test_a_plan_with_and_without_a_target(ask: Ask, sample: Any) -> None:
    assert_plan(ask("plan", "x.npy", "y.zarr", "--chunks", "5,5"))
    assert ask("plan", "x.npy", "y.zarr", "--chunks", "5,5", "--overwrite")["lower_bound_seeks"] == 25
    assert ask("plan", "x.npy", "--to", "zarr", "--chunks", "5,5")["lower_bound_seeks"] == 25
    assert ask("plan", "x.npy")["lower_bound_seeks"] == 2


def test_negative_lengths_are_values_and_no_options(ask: Ask, sample: Any) -> None:
    for words in (["--chunks", "-1,10"], ["--chunks=-1,10"], ["--chunks", "full,10"]):
        target = ask("plan", "x.npy", "y.zarr", *words)["problem"]["target"]
        assert target["chunks"] == [20, 10]
    assert ask("plan", "x.npy", "y.zarr", "--chunks", "10,-1")["problem"]["target"]["chunks"] == [10, 30]


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["--memory", "2MiB"], ("problem", "memory_bytes"), 2 << 20),
        (["--memory", "123456"], ("problem", "memory_bytes"), 123456),
        (["--device", "hdd"], ("problem", "device"), "hdd"),
        (["--memory-model", "held"], ("problem", "memory_model"), "held"),
        (["--strategy", "naive"], ("strategy",), "naive"),
        (["--objective", "seeks"], ("objective",), "seeks"),
        (["--transpose", "1,0"], ("problem", "target", "shape"), [30, 20]),
        (["--region", "2:12,:"], ("problem", "target", "shape"), [10, 30]),
        (["--scratch-limit", "1MiB", "--scratch-objects", "9"], ("problem", "target", "shape"), [20, 30]),
        (["--target-device", "hdd", "--scratch-device", "ssd"], ("problem", "device"), "nvme"),
        (["--scratch", "somewhere"], ("problem", "device"), "nvme"),
        (["--codec", "gzip:1"], ("problem", "target", "codec"), "gzip:1"),
        (["--dtype", "f8"], ("problem", "target", "dtype"), "<f8"),
        (["--to", "zarr2"], ("problem", "target", "shape"), [20, 30]),
        (["--from", "npy"], ("problem", "target", "shape"), [20, 30]),
        (["--on-missing", "error"], ("problem", "target", "shape"), [20, 30]),
        (["--chunks", "5,5", "--shards", "10,10"], ("problem", "target", "shards"), [10, 10]),
    ],
)
def test_every_option_arrives(ask: Ask, sample: Any, words: list[str], key: tuple[str, ...], value: object) -> None:
    found = ask("plan", "x.npy", "y.zarr", "--chunks", "10,10", *words)
    for name in key:
        found = found[name]
    assert found == value


def test_source_codec_makes_units_encoded(ask: Ask) -> None:
    words = [*SHAPES, "--source-codec", "zstd:3"]
    assert ask(*words)["problem"]["source"]["partial_reads"] is False


# ---------------------------------------------------------------- run
def test_run_says_what_it_did(ask: Ask, sample: Any, here: Path) -> None:
    made = ask("run", "x.npy", "y.zarr", "--chunks", "7,11", "--memory", "1MiB")
    assert_plan(made)
    assert set(made) >= PLAN | RUN
    assert set(made["measured"]) == set(made["cost"])
    for key in ("opens", "seeks", "runs", "bytes_read", "bytes_written"):
        assert made["measured"][key] == made["cost"][key], key
    assert made["measured"]["peak_bytes"] <= 1 << 20
    assert made["write_boxes"] == 9
    assert made["resumed_boxes"] == made["missing_chunks"] == 0
    assert np.array_equal(reblock.open(here / "y.zarr")[...], sample)
    assert sorted(path.name for path in here.iterdir()) == ["x.npy", "y.zarr"]


def test_run_for_people(call: Call, sample: Any) -> None:
    result = call("run", "x.npy", "y.zarr", "--chunks", "7,11")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("y.zarr: done in ")
    assert re.search(r"^ +predicted +measured +measured / predicted$", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^  bytes read +2\.34 KiB +2\.34 KiB +equal$", result.stdout, flags=re.MULTILINE)


def test_run_views_and_converts(ask: Ask, sample: Any, here: Path) -> None:
    words = ["--chunks", "5,-1", "--region", "2:12,:", "--transpose", "1,0", "--dtype", ">f8", "--codec", "gzip:1"]
    ask("run", "x.npy", "y.h5::/a/b", *words)
    found = reblock.open(f"{here}/y.h5::a/b")
    assert found.chunks == (5, 10)
    assert found.dtype == np.dtype(">f8")
    assert np.array_equal(found[...], sample[2:12].T)


def test_overwrite_replaces(call: Call, ask: Ask, sample: Any, here: Path) -> None:
    ask("run", "x.npy", "y.zarr", "--chunks", "5,5")
    assert call("run", "x.npy", "y.zarr", "--chunks", "6,6").exit_code == 1
    assert reblock.open(here / "y.zarr").chunks == (5, 5)
    ask("run", "x.npy", "y.zarr", "--chunks", "6,6", "--overwrite")
    assert reblock.open(here / "y.zarr").chunks == (6, 6)
    assert sorted(path.name for path in here.iterdir()) == ["x.npy", "y.zarr"]


# ---------------------------------------------------------------- info and verify
def test_info(ask: Ask, call: Call, sample: Any) -> None:
    ask("run", "x.npy", "y.zarr", "--chunks", "7,11")
    found = ask("info", "y.zarr")
    keys = ["format", "shape", "dtype", "chunks", "shards", "order", "codec", "fill_value", "axes", "attributes"]
    assert set(found) == {*keys, "digest", "disks"}
    assert (found["format"], found["shape"], found["chunks"], found["dtype"]) == ("zarr", [20, 30], [7, 11], "<i4")
    shown = call("info", "y.zarr").stdout
    assert "20 × 30" in shown
    assert "7,11 (9 chunks)" in shown


def test_numbers_that_json_does_not_have(ask: Ask, call: Call, here: Path) -> None:
    import zarr

    zarr.create_array(here / "n.zarr", shape=(4,), chunks=(2,), dtype="f4", fill_value=float("nan"))
    assert ask("info", "n.zarr")["fill_value"] == "NaN"
    assert "NaN" in call("info", "n.zarr").stdout


def test_names_that_move_the_cursor_are_written_out(call: Call, here: Path) -> None:
    import zarr

    attributes = {"a\x1b[2Jb": "c\rd\ne", **{f"k{n}": n for n in range(50)}}
    zarr.create_array(here / "n.zarr", shape=(4,), chunks=(2,), dtype="f4", attributes=attributes)
    shown = call("info", "n.zarr").stdout
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "\\x1b[2Jb" in shown
    assert "31 more" in shown


def test_verify(ask: Ask, call: Call, sample: Any, here: Path) -> None:
    ask("run", "x.npy", "y.zarr", "--chunks", "7,11", "--transpose", "1,0")
    equal = ask("verify", "x.npy", "y.zarr", "--transpose", "1,0")
    keys = {"equal", "source_digest", "target_digest", "differing_elements", "first_difference", "differences"}
    assert set(equal) == keys
    assert (equal["equal"], equal["differing_elements"], equal["first_difference"]) == (True, 0, None)
    assert call("verify", "x.npy", "y.zarr", "--transpose", "1,0").stdout.startswith("equal: x.npy and y.zarr")
    sample[3, 4] += 1
    np.save(here / "z.npy", sample)
    for target in ("z.npy", "y.zarr"):  # an element, and the shape
        result = call("verify", "x.npy", target, "--json")
        assert (result.exit_code, result.stderr) == (1, "")
        answer = json.loads(result.stdout)
        assert answer["equal"] is False
        assert answer["differences"]
    result = call("verify", "x.npy", "z.npy")
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith("different: x.npy and z.npy")
    was, now = int(sample[3, 4]) - 1, int(sample[3, 4])
    assert "  1 element differs\n" in result.stdout
    assert f"  first at [3, 4] of the source: {was} there, {now} in the target\n" in result.stdout
    answer = json.loads(call("verify", "x.npy", "z.npy", "--json").stdout)
    assert answer["differing_elements"] == 1
    assert answer["first_difference"] == {"index": [3, 4], "source": was, "target": now}


def test_axes_by_name_short_regions_and_one_number(ask: Ask, call: Call, here: Path) -> None:
    import zarr

    elements = np.arange(20 * 12 * 10).reshape(20, 12, 10)
    zarr.create_array(here / "n.zarr", data=elements, chunks=(5, 6, 5), dimension_names=["z", "y", "x"])
    words = ("--region", "z=2:12,x=1:", "--transpose", "x,z,y")
    made = ask("run", "n.zarr", "t.zarr", "--chunks", "4", "--shards", "8", *words)
    assert made["passes"]
    found = zarr.open_array(here / "t.zarr", mode="r")
    assert (found.chunks, found.shards) == ((4, 4, 4), (8, 8, 8))
    assert np.array_equal(found[...], elements[2:12, :, 1:].transpose(2, 0, 1))
    assert ask("verify", "n.zarr", "t.zarr", *words)["equal"]
    noted = ask("run", "n.zarr", "t.npy", "--chunks", "x=2", "--region", "2:12")
    assert np.array_equal(np.load(here / "t.npy"), elements[2:12])
    assert any("chunks 5,6,2 are ignored" in note for note in noted["notes"])
    wrong = call("run", "n.zarr", "u.zarr", "--region", "t=0:1")
    assert "'t' names no axis: the axes are z, y, x" in wrong.stderr


@pytest.mark.parametrize("reader", ["reblock", "library"])
def test_verify_exits_with_2_where_it_could_not_compare(call: Call, sample: Any, here: Path, reader: str) -> None:
    cut = (here / "x.npy").read_bytes()[:-1]
    (here / "cut.npy").write_bytes(cut)
    for target in ("cut.npy", "none.npy"):
        result = call("verify", "x.npy", target, "--json", "--reader", reader)
        assert result.exit_code == 2
        assert target in json.loads(result.stdout)["error"]["message"]
        assert call("verify", target, "x.npy", "--reader", reader).exit_code == 2
    np.save(here / "other.npy", np.zeros((2, 2)))
    assert call("verify", "x.npy", "other.npy", "--reader", reader).exit_code == 1
    assert call("verify", "x.npy", "x.npy", "--reader", reader).exit_code == 0
    assert call("verify", "x.npy", "x.npy", "--reader", "neither").exit_code == 2


# ---------------------------------------------------------------- demo
def test_demo(call: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(here / "tmp"))
    result = call("demo")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("hold the same elements") == 2
    assert result.stdout.count("measured / predicted") == 2
    assert "Try next" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert list((here / "tmp").iterdir()) == []


def test_demo_keeps_its_files_when_asked(ask: Ask, call: Call, here: Path) -> None:
    made = ask("demo", "--keep", "kept")
    assert made["equal"] is True
    assert len(made["runs"]) == 2
    assert sorted(path.name for path in (here / "kept").iterdir()) == ["sample.h5", "sample.npy", "sample.zarr"]
    again = call("demo", "--keep", "kept")
    assert again.exit_code == 1
    assert "not empty" in again.stderr
    (here / "file").write_text("")
    assert call("demo", "--keep", "file").exit_code == 1


def test_a_failed_demo_leaves_nothing(call: Call, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise reblock.DiskError("no space", path="x", errno=28)

    monkeypatch.setattr(api, "run", fail)
    (here / "empty").mkdir()
    for folder in ("new", "empty"):
        assert call("demo", "--keep", folder).exit_code == 1
    assert [path.name for path in here.iterdir()] == ["empty"]
    assert list((here / "empty").iterdir()) == []


# ---------------------------------------------------------------- help
def test_version(call: Call) -> None:
    result = call("--version")
    assert (result.exit_code, result.stdout) == (0, f"reblock {reblock.__version__}\nengine: compiled\n")


def test_without_the_compiled_engine_it_is_said(
    call: Call, ask: Ask, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reblock.engine.native.library", lambda: None)
    assert "\nengine: numpy, which is slower: " in call("--version").stdout
    planned = ask("plan", "x.npy", "y.zarr", "--chunks", "5,5")
    assert any("engine: numpy" in note for note in planned["notes"])


@pytest.mark.parametrize("words", [[], ["bench"], ["replicas"]])
def test_no_command_is_help(call: Call, words: list[str]) -> None:
    result = call(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(" ".join(["Usage: reblock", *words, "[OPTIONS]"]))
    assert "Commands:" in result.stdout


def test_help_gives_examples_that_parse(call: Call) -> None:
    context = click.Context(application)
    found = 0
    for name in application.list_commands(context):
        result = call(name, "--help")
        assert result.exit_code == 0
        command = application.get_command(context, name)
        assert command is not None
        assert command.short_help
        for words in re.findall(rf"^ +reblock {name} +(.+)$", result.stdout, flags=re.MULTILINE):
            found += 1
            command.make_context(name, words.split(), resilient_parsing=False)
    assert found >= 10


def test_defaults_in_the_help_are_those_of_the_api(call: Call) -> None:
    context = click.Context(application)
    for name, function in (("plan", api.plan), ("run", api.plan), ("verify", api.verify)):
        command = application.get_command(context, name)
        assert command is not None
        taken = inspect.signature(function).parameters
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag:
                continue
            if option.name in ("scratch", "save", "plan_file", "storage_option", "workers", "cluster", "array_task"):
                continue
            assert option.name in taken, option.name
            assert option.default is None or option.default is click.core.UNSET
            default = taken[option.name].default
            if default not in (None, ()):
                assert f"[default: {default}" in (option.help or ""), option.name


def test_unknown_commands_and_options_cannot_be_parsed(call: Call, sample: Any) -> None:
    for words in (
        ["frobnicate"],
        ["info"],
        ["info", "x.npy", "--frobnicate"],
        ["info", "x.npy", "y.npy"],
        ["plan"],
        ["run", "x.npy"],
        ["plan", "x.npy", "--chunks"],
        ["--frobnicate"],
    ):
        result = call(*words)
        assert result.exit_code == 2, words
        assert result.stdout == ""
        assert re.fullmatch(r"reblock: error: .+ \(see reblock.* --help\)\n", result.stderr), result.stderr
    result = call("info", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["type"] == "CommandLineError"
