"""Whatever happens inside: one line or one document, an exit code, and no traceback."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import reblock
from reblock import api
from reblock.cli.output import to_json

Call = Callable[..., Result]


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make `info` fail."""

    def prepare(error: BaseException) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(api, "info", fail)

    return prepare


@pytest.mark.parametrize(
    ("error", "code", "kind", "says"),
    [
        (
            RuntimeError("boom\nand more"),
            1,
            "InternalError",
            "internal error: RuntimeError: boom and more; please report",
        ),
        (AssertionError(), 1, "InternalError", "internal error: AssertionError; please report"),
        (RecursionError("deep"), 1, "InternalError", "internal error"),
        (MemoryError(), 1, "MemoryError", "--memory"),
        (OSError(errno.EIO, "Input/output error", "disk"), 1, "DiskError", "EIO"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe", "pipe"), 1, "DiskError", "EPIPE"),
        (reblock.Refused("no", needs_memory_bytes=7), 1, "Refused", "no"),
        (KeyboardInterrupt(), 130, "Interrupted", "interrupted"),
        (EOFError(), 1, "InternalError", "EOFError"),
    ],
)
def test_one_line_or_one_document(
    call: Call, raising: Any, read: Any, error: BaseException, code: int, kind: str, says: str
) -> None:
    raising(error)
    result = call("info", "x")
    assert (result.exit_code, result.stdout) == (code, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("reblock: error: ")
    assert says in line
    result = call("info", "x", "--json")
    assert (result.exit_code, result.stderr) == (code, "")
    found = read(result.stdout)["error"]
    assert found["type"] == kind
    assert says in found["message"]
    assert found["needs_memory_bytes"] == getattr(error, "needs_memory_bytes", None)


def test_tracebacks_are_for_those_who_ask(call: Call, raising: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(RuntimeError("boom"))
    assert "Traceback" not in call("info", "x").output
    monkeypatch.setenv("REBLOCK_DEBUG", "1")
    result = call("info", "x")
    assert result.stderr.startswith("Traceback")
    assert result.stderr.splitlines()[-1].startswith("reblock: error: ")
    result = call("info", "x", "--json")
    assert json.loads(result.stdout)["error"]["type"] == "InternalError"
    assert "Traceback" in result.stderr


def test_numbers_that_json_does_not_have() -> None:
    value = {"a": [float("nan"), float("inf")], "b": {"c": (-float("inf"), 1.5, 2**70)}, 3: None, "d": Path("x")}
    assert json.loads(to_json(value)) == {
        "a": ["NaN", "Infinity"],
        "b": {"c": ["-Infinity", 1.5, 2**70]},
        "3": None,
        "d": "x",
    }
