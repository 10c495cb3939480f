"""Links between the pages lead somewhere, every page can be reached, and pages speak of the project only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The names under which headings can be linked to."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(prose(page))}


def targets(page: Path) -> list[tuple[str, Path, str]]:
    """Links of a page to other files: as written, the file, the heading."""
    found = []
    for link in LINK.findall(prose(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        found.append((link, (page.parent / path).resolve() if path else page, anchor))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = [
        link
        for link, path, anchor in targets(page)
        if not path.exists() or not path.is_relative_to(ROOT) or (anchor and anchor not in anchors(path))
    ]
    assert broken == []


MODULE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|c|h))`")
FILES = [path.as_posix() for room in ("src", "tests", "benchmarks") for path in (ROOT / room).rglob("*.*")]
EXPLAINING = [page for page in PAGES if page.parent.name in ("decisions", "explanation", ROOT.name)]


@pytest.mark.parametrize("page", EXPLAINING, ids=lambda page: page.name)
def test_modules_that_pages_name_exist(page: Path) -> None:
    """By the end of their path; `NAME.py` stands for a new one."""
    named = {name for name in MODULE.findall(prose(page)) if "NAME" not in name}
    assert {name for name in named if not any(file.endswith(f"/{name}") for file in FILES)} == set()


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += [path for _, path, _ in targets(page) if path.suffix == ".md" and path.is_file()]
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - reached == set()


def test_decisions_have_numbers_of_their_own() -> None:
    """There may be gaps: people who work at the same time reserve numbers."""
    numbers = [int(page.name[:4]) for page in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))]
    assert len(set(numbers)) == len(numbers)
    assert numbers[0] == 1


STATUS = re.compile(r"Status: (?:Accepted|Superseded by \[\d{4}\]\(\d{4}-[^)]+\.md\))")


def test_decisions_have_one_form() -> None:
    """A numbered title, a status, then context, decision and consequences; the index has the same titles."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    wrong = []
    for page in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title, blank, status, *rest = page.read_text(encoding="utf-8").splitlines()
        parts = re.findall(r"^\*\*(Context|Decision|Consequences)\.\*\*", "\n".join(rest), re.MULTILINE)
        listed = f"- [{title.removeprefix('# ')}](decisions/{page.name})" in index
        numbered = title.startswith(f"# {page.name[:4]} ")
        right = numbered and listed and not blank and STATUS.match(status) is not None
        if not right or parts != ["Context", "Decision", "Consequences"]:
            wrong.append(page.name)
    assert wrong == []


def test_the_glossary_is_sorted_and_has_the_nouns_of_the_architecture() -> None:
    glossary = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = [line.split("|")[1].strip() for line in glossary.splitlines() if line.startswith("| ")][2:]
    assert terms == sorted(terms, key=str.lower)
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Nouns")[2].partition("## ")[0]
    rows = [line.split("|")[1] for line in architecture.splitlines() if line.startswith("| ")][2:]
    nouns = {noun.strip().lower() for row in rows for noun in row.split(",")}
    assert nouns - set(terms) - {"axis", "decision", "view"} == set()


def test_the_first_two_commands_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shells = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line.split("#")[0].strip() for shell in shells for line in shell.splitlines() if line.strip()]
    assert lines[:2] == ["make demo", "make test"]


def test_the_architecture_fits_on_a_page() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 100
