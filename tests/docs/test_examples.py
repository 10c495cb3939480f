"""Every example runs as it is, quickly, and leaves nothing behind."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_it_runs(example: Path, tmp_path: Path) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    result = subprocess.run(
        [sys.executable, "-W", "error", example],
        cwd=work,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout
    assert os.listdir(work) == []
    assert [name for name in os.listdir(temporary) if not name.startswith("pytest-of-")] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_it_says_what_it_shows(example: Path) -> None:
    assert ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))


def test_the_readme_of_the_docs_lists_all() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [example.name for example in EXAMPLES if example.name not in listed] == []
