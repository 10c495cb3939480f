"""Messages speak Python to Python and the command line to the command line."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import click
import numpy as np
import pytest

import reblock
from reblock import errors
from reblock.cli.application import application
from reblock.cli.failure import CommandLine, Failure
from reblock.cli.options import spell
from reblock.errors import DiskError, UsageError, command, option, options


@pytest.mark.parametrize(
    ("mark", "python", "typed"),
    [
        (option("overwrite", True), "overwrite=True", "--overwrite"),
        (option("digest", False), "digest=False", "--no-digest"),
        (option("to_format", "zarr2"), "to_format='zarr2'", "--to zarr2"),
        (option("from_format"), "from_format", "--from"),
        (option("allow_external", ["/a b"]), "allow_external=['/a b']", "--allow-external /a b"),
        (option("source_chunks"), "source_chunks", "--source-chunks"),
        (options("shape", "dtype"), "shape and dtype", "--shape and --dtype"),
        (command("clean", "x.zarr"), "reblock.clean('x.zarr')", "`reblock clean x.zarr`"),
    ],
    ids=str,
)
def test_options_and_commands_in_two_languages(mark: str, python: str, typed: str) -> None:
    error = UsageError(f"{mark} or not")
    assert str(error) == f"{python} or not"
    assert error.told(CommandLine()) == f"{typed} or not"
    assert Failure.of(error).message == f"{typed} or not"
    assert repr(error) == f"UsageError({str(error)!r})"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_advice_is_added_once_and_speaks_as_well() -> None:
    error = DiskError("full", path="x", errno=28)
    for _ in range(2):
        error.add(f"or {option('overwrite', True)}")
    assert str(error) == "full; or overwrite=True"
    assert error.told(CommandLine()) == "full; or --overwrite"


def test_text_of_others_is_left_as_it_is() -> None:
    assert str(UsageError("a\x1eb\x1ec")) == "a\x1eb\x1ec"


def test_every_option_is_spelled_as_it_is_typed() -> None:
    context = click.Context(application)
    for name in application.list_commands(context):
        one = application.get_command(context, name)
        assert one is not None
        for parameter in one.params:
            if isinstance(parameter, click.Option) and name != "bench":
                assert spell(str(parameter.name)) in parameter.opts


def test_python_hears_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((4, 4)))
    Path("y.dat").write_bytes(b"?" * 100)
    np.save("x2.npy", np.zeros(3))
    calls = {
        "overwrite=True": lambda: reblock.repartition("x.npy", "x2.npy"),
        "with format: npy": lambda: reblock.open("y.dat"),
        "with from_format: npy": lambda: reblock.plan("y.dat", "z.npy"),
        "with to_format: npy": lambda: reblock.plan("x.npy", "z.dat"),
        "on_missing must be fill or error": lambda: reblock.plan("x.npy", "z.npy", on_missing="x"),
        "needs shape, dtype, source_chunks and chunks": reblock.plan,
        "checksum: npy has no place": lambda: reblock.plan("x.npy", "z.npy", checksum=True),
        "allow_external=['nowhere']: there is no such folder": lambda: reblock.open(
            "x.npy", allow_external=["nowhere"]
        ),
    }

    for says, call in calls.items():
        with pytest.raises(reblock.ReblockError) as caught:
            call()
        assert says in str(caught.value)
        assert "--" not in str(caught.value)


def test_no_error_below_the_command_line_speaks_its_language() -> None:
    package = Path(reblock.__file__).parent
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] in ("bench", "cli", "testing"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in dir(errors):
                texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                typed = [text for text in texts if re.search(r"(^|[ (`])--(?!upgrade)[a-z]", text)]
                assert not typed, f"{path}:{node.lineno}: name options by reblock.errors.option, not {typed}"
