"""What the pages show is what happens: their Python runs, their commands print what is printed there.

A page is worked through from top to bottom in an empty folder of its own:

- a `python` block is run, in one namespace per page; a `text` block right after it is what it prints;
- a `console` block holds commands after `$ ` and what they print; all of them are `reblock`;
- a line `…` in an output stands for any lines.

What depends on the machine — elapsed time, and what threads happened to hold — is not compared. With
REBLOCK_REFRESH=1 in the environment outputs are rewritten instead.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reblock.cli.application import application

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFRESH = os.environ.get("REBLOCK_REFRESH") == "1"
ANYTHING = "…"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELAPSED = re.compile(r"(?:done in|time went to) .*")
#: Rows of a report whose measured column depends on how threads were scheduled.
UNSTEADY = re.compile(r"^(\s*(?:peak memory|held|seconds)\s{2,}[\d.,]+ \S+)\s{2,}[\d.,]+ .*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    body: str
    start: int
    stop: int
    """Where the body lies in the page."""


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], m.start(2), m.end(2)) for m in FENCE.finditer(text)]


def steady(text: str) -> str:
    """An output without what depends on the machine, and without the widths of columns."""
    text = UNSTEADY.sub(r"\1", ELAPSED.sub("done", text))
    return "\n".join(re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in text.rstrip().splitlines())


def agrees(shown: str, real: str) -> bool:
    """Whether an output is the one shown, whatever `…` stands for."""
    parts = [
        r"(?:.*\n)*?" if line.strip() == ANYTHING else re.escape(line) + r"\n" for line in steady(shown).splitlines()
    ]
    return re.fullmatch("".join(parts), steady(real) + "\n" if real.strip() else "") is not None


def renewed(shown: str, real: str) -> str:
    """The output as it should be shown: all of it, or as many lines as before where the end was left out."""
    lines = shown.rstrip("\n").splitlines()
    if ANYTHING not in [line.strip() for line in lines]:
        return real.rstrip() + "\n" if real.strip() else ""
    if agrees(shown, real):
        return shown
    assert [line.strip() for line in lines].count(ANYTHING) == 1, f"mend this by hand:\n{shown}\nreally:\n{real}"
    assert lines[-1].strip() == ANYTHING, f"mend this by hand:\n{shown}\nreally:\n{real}"
    return "\n".join([*real.splitlines()[: len(lines) - 1], lines[-1]]) + "\n"


def commands(body: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with the output shown."""
    found: list[tuple[str, str]] = []
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line, ""))
        elif found and not found[-1][1] and found[-1][0].endswith("\\\n"):
            found[-1] = (found[-1][0] + line, "")
        else:
            assert found, f"a console block starts with a command, not with {line!r}"
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def run_command(line: str) -> str:
    """The output of a command, stderr included; its exit code must fit what it says."""
    words = shlex.split(line.removeprefix("$ ").replace("\\\n", " "))
    assert words[0] == "reblock", f"only reblock is run from pages, not {line!r}"
    result = CliRunner().invoke(application, words[1:])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    failed = "reblock: error: " in result.output or result.output.startswith("different: ")
    assert (result.exit_code != 0) == failed, (line, result.exit_code, result.output)
    return result.output


def run_python(body: str, names: dict[str, Any], page: Path) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(body, str(page), "exec", dont_inherit=True), names)
    return printed.getvalue()


def work_through(page: Path) -> str:
    """Run a page; the page with the outputs as they are."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    made: list[str] = []
    done = 0
    printed: str | None = None
    for block in blocks(text):
        between = text[done : block.start]
        made.append(between)
        body = block.body
        if (
            block.kind == "text"
            and printed is not None
            and not between.removeprefix("```").removesuffix("```text\n").strip()
        ):
            body = _checked(body, printed, page)
            printed = None
        elif block.kind == "python":
            printed = run_python(body, names, page)
        elif block.kind == "console":
            printed = None
            body = "".join(line + _checked(shown, run_command(line), page, line) for line, shown in commands(body))
        else:
            printed = None
        made.append(body)
        done = block.stop
    made.append(text[done:])
    return "".join(made)


def _checked(shown: str, real: str, page: Path, line: str = "") -> str:
    if REFRESH:
        return renewed(shown, real)
    assert agrees(shown, real), f"{page.relative_to(ROOT)}: {line}\nshown:\n{shown}\nreally:\n{real}"
    return shown


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REBLOCK_DEBUG", raising=False)
    text = work_through(page)
    if REFRESH:
        page.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_shown_where_they_are_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    run = [line for block in blocks(text) if block.kind == "console" for line in block.body.splitlines()]
    assert text.count("\n$ ") == sum(line.startswith("$ ") for line in run)
    assert text.count("\n```") % 2 == 0
    assert {block.kind for block in blocks(text)} <= {"python", "text", "console", "sh", "toml", "json", ""}


def test_the_comparison_would_notice() -> None:
    assert agrees("a\n…\nd\n", "a\nb\nc\nd\n")
    assert agrees("x.zarr: done in 3 ms\n", "x.zarr: done in 2.1 s\n")
    assert agrees("  seconds   3 ms   5 ms   1.67 ×\n", "  seconds   3 ms  17 ms   5.67 ×\n")
    assert agrees("", "")
    assert not agrees("a\nd\n", "a\nb\nd\n")
    assert not agrees("a\n…\nd\n", "a\nb\n")
    assert not agrees("  seconds   3 ms   5 ms   1.67 ×\n", "  seconds   4 ms  17 ms   5.67 ×\n")
    assert not agrees("  seeks   96   96   equal\n", "  seeks   96   97   1.01 ×\n")
    assert not agrees("", "something\n")


def test_refreshing_keeps_what_is_left_out() -> None:
    assert renewed("a\nb\n…\n", "c\nd\ne\n") == "c\nd\n…\n"
    assert renewed("a\n", "c\nd\n") == "c\nd\n"
