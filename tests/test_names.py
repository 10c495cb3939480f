"""One class name, one meaning: no name is defined in two modules."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "reblock"


def repeated(modules: dict[str, str]) -> dict[str, list[str]]:
    """Class names that are defined in several modules, leading underscores stripped."""
    places = defaultdict(list)
    for module, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(module)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_no_class_name_has_two_meanings() -> None:
    modules = {str(file.relative_to(SOURCE)): file.read_text() for file in sorted(SOURCE.rglob("*.py"))}
    assert repeated(modules) == {}


def test_a_repeated_name_is_found() -> None:
    modules = {"a.py": "class Box: pass", "b.py": "class _Box: pass", "c.py": "class Grid: pass"}
    assert repeated(modules) == {"Box": ["a.py", "b.py"]}
