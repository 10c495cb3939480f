"""The examples in docstrings run and print what they show, and every public function has one."""

from __future__ import annotations

import doctest
import inspect
import tempfile
from importlib import import_module
from pathlib import Path

import pytest

import reblock

SOURCE = Path(reblock.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
PUBLIC = sorted(name for name in reblock.__all__ if inspect.isfunction(getattr(reblock, name)))


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_function_has_an_example(name: str) -> None:
    assert "Examples\n--------\n>>> " in (inspect.getdoc(getattr(reblock, name)) or "")
