"""The reference cannot drift: its tables are those of the program.

With REBLOCK_REFRESH=1 in the environment the page of the command line is written again.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import reblock
from reblock import api, errors
from reblock.cli.application import application
from reblock.errors import UsageError
from reblock.model import Codec, Cost, Schema
from reblock.model.codec import _PLACES
from reblock.storage import registry
from reblock.strategies import strategies

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
REFRESH = os.environ.get("REBLOCK_REFRESH") == "1"
BEGIN = "<!-- generated from the program: REBLOCK_REFRESH=1 pytest tests/docs -->\n"
END = "<!-- end -->"


def read(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """What is below a heading, to the next one."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no heading {title}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of the tables in a text, without headers."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [number for number, row in enumerate(cells) if set("".join(row)) <= set("- :")]
    return [row for number, row in enumerate(cells) if number not in rules and number + 1 not in rules]


def keys(text: str) -> list[str]:
    """Names in code in the first column of tables."""
    return [name for row in rows(text) for name in re.findall(r"`([^`]+)`", row[0])]


# ---------------------------------------------------------------- command line
def commands() -> Iterator[tuple[click.Context, click.Command]]:
    """Every command, those of groups after their group."""

    def below(context: click.Context, command: click.Command) -> Iterator[tuple[click.Context, click.Command]]:
        if not isinstance(command, click.Group):
            yield context, command
            return
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from below(click.Context(found, info_name=name, parent=context), found)

    yield from below(click.Context(application, info_name="reblock"), application)


def described() -> str:
    """Every command with its options, as Markdown."""
    parts = []
    for context, command in commands():
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        parts += [f"\n## {context.command_path}\n", f"```\n{usage}\n```\n"]
        # The order of paragraphs is that of the docstring; code in them stays code.
        parts.append(inspect.cleandoc(command.help or "").replace("\b\n", "") + "\n")
        parts.append("| option | meaning | default |\n| --- | --- | --- |")
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        parts += [option_row(option, context) for option in options]
        examples = inspect.cleandoc(command.epilog or "").replace("\b\n", "").removeprefix("Examples:\n")
        if examples:
            parts.append(f"\n```\n{inspect.cleandoc(examples)}\n```")
    return "\n".join(parts).lstrip("\n") + "\n"


def option_row(option: click.Option, context: click.Context) -> str:
    text, _, default = (option.help or "").partition("[default: ")
    if option.show_default:
        default = str(option.default)
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    cells = (f"`{option.opts[0]}{metavar}`", text.strip(), default.removesuffix("]"))
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def generated() -> str:
    return re.sub(r"\n{3,}", "\n\n", described())


def test_the_command_line_is_as_described() -> None:
    head, begin, rest = read("cli").partition(BEGIN)
    shown, end, tail = rest.partition(END)
    assert begin
    assert end
    if REFRESH:
        (REFERENCE / "cli.md").write_text(f"{head}{begin}\n{generated()}\n{end}{tail}", encoding="utf-8")
        return
    assert shown.strip() == generated().strip(), "REBLOCK_REFRESH=1 pytest tests/docs writes it again"


def test_every_option_of_help_is_described() -> None:
    """Against the real `--help`, so that the generator is held to something too."""
    text = read("cli")
    for context, command in commands():
        words = context.command_path.split()[1:]
        told = CliRunner().invoke(application, [*words, "--help"]).output
        options = set(re.findall(r"^  (?:-h, )?(--[\w-]+)", told, re.MULTILINE)) - {"--help"}
        found = {option.split()[0] for option in keys(section(text, context.command_path))}
        assert found == options, context.command_path
        assert command.help


# ---------------------------------------------------------------- JSON
FREE = {"attributes"}


def paths(document: Any, before: str = "") -> set[str]:
    """Every key of a document, as the page writes it; alternatives have the keys of `cost`."""
    found: set[str] = set()
    for key, value in document.items():
        path = f"{before}{key}"
        entries = value if isinstance(value, list) else [value]
        objects = [entry for entry in entries if isinstance(entry, dict)]
        if not objects or key in FREE or path == "alternatives[].cost":
            found.add(path)
            continue
        for entry in objects:
            found |= paths(entry, f"{path}[]." if isinstance(value, list) else f"{path}.")
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((8, 9), "f4"))
    reblock.save_plan(reblock.plan("x.npy", "x.zarr", chunks=(4, 4)), "p.json")
    return tmp_path


@pytest.mark.parametrize(
    ("titles", "words"),
    [
        (["plan"], "plan x.npy x.zarr --chunks 4,4"),
        (["plan", "run"], "run x.npy x.zarr --chunks 4,4"),
        (["info"], "info x.npy"),
        (["verify"], "verify x.npy x.npy"),
        (["advise"], "advise x.npy --access cubes,maps --media 2"),
        (["simulate"], "simulate p.json"),
        (["clean"], "clean x.npy"),
        (["error"], "info nowhere"),
    ],
)
def test_documents_have_the_keys_that_are_described(here: Path, titles: list[str], words: str) -> None:
    document = json.loads(CliRunner().invoke(application, [*words.split(), "--json"]).stdout)
    listed = [key for title in titles for key in keys(section(read("json"), title))]
    assert len(listed) == len(set(listed))
    assert set(listed) == paths(document)


def test_the_keys_of_a_dataset_are_described(here: Path) -> None:
    empty_dataset()
    assert set(keys(section(read("json"), "info of a dataset"))) == set(reblock.info("empty.zarr"))


def empty_dataset() -> None:
    os.mkdir("empty.zarr")
    with open("empty.zarr/zarr.json", "w", encoding="utf-8") as file:
        json.dump({"zarr_format": 3, "node_type": "group"}, file)


def test_the_keys_of_an_unfinished_run_are_described(here: Path) -> None:
    def stop(done: int, whole: int) -> None:
        if 2 * done > whole:
            raise KeyboardInterrupt

    job = reblock.plan("x.npy", "x.zarr", chunks=(1, 1))
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=stop)
    document = json.loads(CliRunner().invoke(application, ["status", "x.zarr", "--json"]).stdout)
    # Options are those that were given.
    found = {re.sub(r"(\.options)\..*", r"\1", path) for path in paths(document)}
    # It is empty, because the target is one array.
    assert document["unfinished"]["arrays"] == {}
    assert set(keys(section(read("json"), "status"))) == found | {"unfinished.arrays"}


def small_dataset() -> None:
    """A group of two arrays in `two.zarr`."""
    for name in ("one", "two"):
        reblock.repartition("x.npy", f"{name}-alone.zarr::{name}", chunks=(2, 2))
    os.rename("two-alone.zarr/two", "one-alone.zarr/two")
    os.rename("one-alone.zarr", "two.zarr")


def test_the_keys_of_a_run_on_a_dataset_are_described(here: Path) -> None:
    small_dataset()
    listed = {key.partition(".")[0] for key in keys(section(read("json"), "plan and run of a dataset"))}
    words = ["two.zarr", "y.zarr", "--json"]
    document = json.loads(CliRunner().invoke(application, ["plan", *words]).stdout)
    assert set(document) == listed
    single = {key.partition(".")[0].partition("[")[0] for key in keys(section(read("json"), "run"))}
    document = json.loads(CliRunner().invoke(application, ["run", *words]).stdout)
    assert set(document) == listed | single
    assert set(document["arrays"]) == {"one", "two"}
    plan = {key.partition(".")[0].partition("[")[0] for key in keys(section(read("json"), "plan"))}
    assert set(document["arrays"]["one"]) == (plan | single) - {"engine"}


def test_objects_of_datasets_have_what_is_described(here: Path) -> None:
    small_dataset()
    job = reblock.plan("two.zarr", "y.zarr", chunks=1)
    objects = [job, reblock.run(job), reblock.verify("two.zarr", "y.zarr")]
    table = {row[0].strip("`"): row[1] for row in rows(section(read("python"), "Objects of datasets"))}
    assert list(table) == [type(thing).__name__ for thing in objects]
    for thing in objects:
        names = re.findall(r"`(\w+)(?:\([^`]*\))?`", table[type(thing).__name__])
        assert [name for name in names if not hasattr(thing, name) and name not in ("Job", "Report", "Verdict")] == []


def test_measured_has_the_keys_of_cost() -> None:
    names = set(Cost.__slots__)
    for title, before in (("plan", "cost."), ("run", "measured.")):
        listed = keys(section(read("json"), title))
        assert {key.removeprefix(before) for key in listed if key.startswith(before)} == names


# ---------------------------------------------------------------- Python
def test_every_argument_is_described() -> None:
    text = read("python")
    for function in (api.plan, api.advise, api.verify):
        listed = keys(section(text, function.__name__))
        assert sorted(listed) == sorted(inspect.signature(function).parameters)
    for name in ("open", "info", "run", "repartition"):
        (row,) = [row for row in keys(section(text, "Functions")) if row.startswith(f"reblock.{name}(")]
        for argument, parameter in inspect.signature(getattr(api, name)).parameters.items():
            assert argument in row
            if parameter.kind is parameter.KEYWORD_ONLY and not callable(parameter.default):
                assert f"{argument}={parameter.default!r}" in row


def test_defaults_are_described() -> None:
    listed = {row[0].strip("`"): row[1] for row in rows(section(read("python"), "plan"))}
    for name, parameter in inspect.signature(api.plan).parameters.items():
        if isinstance(parameter.default, str):
            assert listed[name] == f'`"{parameter.default}"`'


def test_every_public_name_is_described() -> None:
    text = read("python") + read("errors")
    assert [name for name in reblock.__all__ if name not in text] == []


def test_objects_have_what_is_described(here: Path) -> None:
    array = reblock.open("x.npy")
    empty_dataset()
    job = reblock.plan(array, "x.zarr", chunks=(4, 4))
    report = reblock.run(job)
    advice = reblock.advise(array, access="maps")
    objects = [
        array,
        reblock.open_dataset("empty.zarr"),
        job,
        report,
        reblock.verify(array, "x.zarr"),
        advice,
        report.measured,
    ]
    table = {row[0].strip("`"): row[1] for row in rows(section(read("python"), "Objects"))}
    assert list(table) == [type(thing).__name__ for thing in objects]
    for thing in objects:
        names = re.findall(r"`\.?(\w+)(?:\([^`]*\))?`", table[type(thing).__name__])
        missing = [name for name in names if not hasattr(thing, name) and name != "Cost"]
        assert missing == [], type(thing)


# ---------------------------------------------------------------- strategies, formats, errors
def test_every_strategy_is_described() -> None:
    assert sorted(keys(read("strategies"))) == sorted(["auto", "search", *strategies()])


def test_every_format_is_described() -> None:
    first = rows(read("formats").split("## ")[0])
    assert [row[0].strip("`") for row in first] == [known.name for known in registry._OWN]
    for row, known in zip(first, registry._OWN, strict=True):
        assert set(known.suffixes or ()) == set(re.findall(r"`(\.[\w.]+)`", row[1]))


#: What to ask of a format, for each line of the table.
HOLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "irregular chunks": ("chunks", {"chunks": ((1, 3), 5)}),
    "shards": ("shards", {"shards": (4, 10)}),
    "codec": ("codec", {"codec": Codec.parse("gzip:1")}),
    "fill value": ("fill_value", {"fill_value": np.float32(3)}),
    "attributes": ("attributes", {"attributes": {"units": "K"}}),
    "axis names": ("axes", {"axes": ("y", "x")}),
}


def _decoded(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Text that NetCDF stores as bytes."""
    return {name: value.decode() for name, value in attributes.items() if isinstance(value, bytes)}


def test_formats_hold_what_is_described() -> None:
    table = section(read("formats"), "What they hold")
    names = [known.name for known in registry._OWN]
    told = {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows(table)}
    for line, (field, changes) in HOLDS.items():
        for name in names:
            wanted = Schema((4, 10), np.dtype("<f4"), **{"chunks": (2, 5), **changes})
            try:
                found, given = getattr(registry.get(name).adapt(wanted, {field}), field), getattr(wanted, field)
                # TIFF has the same compression by another name; attributes of MINC itself are added.
                held = found == given or (field == "codec" and bool(found))
                held = held or (field == "attributes" and given.items() <= {**found, **_decoded(found)}.items())
            except UsageError:
                held = False
            assert told[line][name] == ("yes" if held else "–"), (line, name)
    for name in names:
        held = []
        for order, word in (((0, 1, 2), "C"), ((2, 1, 0), "F"), ((1, 0, 2), "any")):
            wanted = Schema((4, 6, 8), np.dtype("<f4"), (2, 3, 4), order=order)
            try:
                adapted = registry.get(name).adapt(wanted, {"order"})
            except UsageError:
                continue
            held += [word] if adapted.order == order else []
        assert told["axis order on disk"][name] == ("any" if "any" in held else ", ".join(held)), name


def _chain(codec: str) -> str:
    """A codec with what it must stand before."""
    return f"{codec}+zlib" if codec == "predictor" else codec


def test_codecs_are_described() -> None:
    page = (ROOT / "docs" / "how-to" / "shards-and-codecs.md").read_text(encoding="utf-8")
    table = {row[0].strip("`"): row for row in rows(section(page, "Codecs"))}
    assert sorted(table) == sorted(_PLACES)
    for codec, row in table.items():
        for name, told in zip(("zarr", "zarr2", "hdf5", "tiff"), row[2:], strict=True):
            wanted = Schema((64, 64), np.dtype("<u2"), (32, 32), codec=Codec.parse(_chain(codec)))
            try:
                adapted = registry.get(name).adapt(wanted, {"codec"})
                held = adapted.codec.names[:1]
                yes = (
                    "on request"
                    if any("specification" in note or "plugin" in note for note in adapted.notes)
                    else "yes"
                )
            except UsageError:
                held, yes = (), ""
            assert told == (yes if held == (codec,) else f"as {held[0]}" if held else "–"), (codec, name)
        if _PLACES[codec]:
            assert f"`{Codec.parse(codec)}`" in row[1]


def test_every_error_is_described() -> None:
    tree = section(read("errors"), "The tree").split("```")[1]
    drawn = re.findall(r"^\W*(\w+)", tree, re.MULTILINE)
    raised = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert sorted(drawn) == sorted(raised)
