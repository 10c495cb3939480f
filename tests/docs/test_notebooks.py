"""Every notebook runs from top to bottom, prints what it shows, and leaves nothing behind.

Cells run in one namespace of a process of their own, without a Jupyter kernel. With REBLOCK_REFRESH=1 in the
environment the outputs are written again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
REFRESH = os.environ.get("REBLOCK_REFRESH") == "1"

#: Runs cells as a notebook does: what is printed, and the value of a last expression as text and as HTML.
RUNNER = """
import ast, contextlib, io, json, sys

outputs, space = [], {"__name__": "__main__"}
for number, text in enumerate(json.load(sys.stdin), 1):
    body = ast.parse(text, f"cell {number}").body
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), space)
        if last is not None:
            value = eval(compile(last, f"cell {number}", "eval"), space)
    cell = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        cell.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": value._repr_html_().splitlines(keepends=True), **data}
        cell.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    outputs.append(cell)
json.dump(outputs, sys.stdout)
"""


def run(cells: list[str], folder: Path) -> list[list[dict[str, Any]]]:
    work, temporary = folder / "work", folder / "temporary"
    work.mkdir()
    temporary.mkdir()
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUNNER],
        input=json.dumps(cells),
        cwd=work,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert os.listdir(work) == []
    assert [name for name in os.listdir(temporary) if not name.startswith("pytest-of-")] == []
    # Temporary folders have another name each time.
    found: list[list[dict[str, Any]]] = json.loads(hide_folders(result.stdout, temporary))
    return found


def hide_folders(text: str, temporary: Path) -> str:
    parts = text.split(f"{temporary}{os.sep}")
    return parts[0] + "".join("/data/" + part.partition(os.sep)[2] for part in parts[1:])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_it_runs_and_prints_what_it_shows(notebook: Path, tmp_path: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    found = run(["".join(cell["source"]) for cell in cells], tmp_path)
    if REFRESH:
        for number, (cell, outputs) in enumerate(zip(cells, found, strict=True), 1):
            cell["outputs"], cell["execution_count"] = outputs, number
        notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for cell, outputs in zip(cells, found, strict=True):
        assert cell["outputs"] == outputs, "REBLOCK_REFRESH=1 pytest tests/docs writes them again"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_it_is_a_notebook(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert content["cells"][0]["cell_type"] == "markdown"
    names = [cell["id"] for cell in content["cells"]]
    assert len(set(names)) == len(names)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [notebook.name for notebook in NOTEBOOKS if notebook.name not in listed] == []
