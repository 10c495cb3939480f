"""What the tests of the command line share: a way to call it, and eyes for what it leaves behind."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from reblock.cli.application import application

#: The command in a process of its own; SIGINT may be ignored where tests run in the background.
COMMAND = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from reblock.cli import main; main()",
]


@pytest.fixture
def command() -> list[str]:
    return list(COMMAND)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REBLOCK_DEBUG", raising=False)
    return tmp_path


@pytest.fixture
def call(here: Path) -> Callable[..., Result]:
    """Run a command line in this process."""

    def run(*words: object) -> Result:
        result = CliRunner().invoke(application, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


@pytest.fixture
def ask(call: Callable[..., Result]) -> Callable[..., Any]:
    """Run a command line with --json that must succeed; its document."""

    def run(*words: object) -> Any:
        result = call(*words, "--json")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return document(result.stdout)

    return run


@pytest.fixture
def sample(here: Path) -> np.ndarray[Any, Any]:
    """The array in x.npy."""
    array = np.arange(20 * 30, dtype="<i4").reshape(20, 30)
    np.save(here / "x.npy", array)
    return array


def document(text: str) -> Any:
    """The one JSON document that a text is, by the letter of the standard."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def listing(folder: Path) -> dict[str, bytes | str | None]:
    """Everything below a folder, hidden files included, with its content."""
    found: dict[str, bytes | str | None] = {}
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(base, name)
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(folder))] = content
    return found


@pytest.fixture
def look() -> Callable[[Path], dict[str, bytes | str | None]]:
    return listing


@pytest.fixture
def read() -> Callable[[str], Any]:
    return document
