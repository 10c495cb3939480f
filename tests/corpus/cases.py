"""What a case of the corpus is, and the arrays that the cases spoil."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: What the arrays hold before they are spoiled.
SAMPLE = np.arange(64, dtype="<i4").reshape(8, 8)
CHUNK = (4, 4)
#: Bytes of a chunk.
CHUNK_BYTES = 64
#: Where bytes lie that nobody may read.
OUTSIDE = "outside"

#: Makes files in an empty folder, and says which of them is the array.
Maker = Callable[[Path], str]


@dataclass(frozen=True)
class Case:
    """One hostile or odd input, and what is to become of it."""

    name: str
    """Format, and what is wrong."""
    make: Maker
    """Makes the files."""
    info: str
    """Type of the error that `reblock info` reports; empty = none. Several are separated by a bar."""
    run: str
    """The same for `reblock run`."""
    says: str = ""
    """Words in the message of `run`."""
    quick: bool = False
    """Whether it is part of the short selection."""
    options: tuple[str, ...] = ()
    """More words for both commands; FOLDER stands for the case's folder."""
    slow: bool = False
    """Whether it is known to take more than the second that a case may take: absurd, but legal."""

    @property
    def leaks(self) -> bool:
        """Whether the case is about files outside of the array, which nobody may open."""
        return "escape" in self.name and bool(self.run)


CASES: dict[str, Case] = {}


def case(
    name: str,
    info: str = "",
    run: str | None = None,
    *,
    says: str = "",
    quick: bool = False,
    options: tuple[str, ...] = (),
    slow: bool = False,
) -> Callable[[Maker], Maker]:
    """Add a case; `run` fails as `info` does unless it is said."""

    def add(make: Maker) -> Maker:
        assert name not in CASES, name
        CASES[name] = Case(name, make, info, info if run is None else run, says, quick, options, slow)
        return make

    return add


def outside(folder: Path, name: str, data: bytes | str = b"secret") -> Path:
    """A file that lies beside the array and not in it."""
    path = folder / OUTSIDE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def write(path: Path, data: bytes | str | Mapping[str, Any]) -> None:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data) if isinstance(data, Mapping) else data
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def nest(depth: int) -> str:
    """Lists in lists."""
    return "[" * depth + "]" * depth


#: Values of a shape that cannot be, as JSON text; the array has two axes.
SHAPES = {
    "negative": "[-8, 8]",
    "float": "[8.0, 8]",
    "nan": "[NaN, 8]",
    "infinity": "[Infinity, 8]",
    "boolean": "[true, 8]",
    "text": '["8", 8]',
    "null": "null",
    "object": '{"0": 8}',
    "huge": "[1" + "0" * 30 + ", 8]",
    "overflow": "[4611686018427387904, 8]",
    "hidden-overflow": "[0, 4611686018427387904, 4611686018427387904]",
    "digits": "[" + "9" * 5000 + ", 8]",
    "rank-33": json.dumps([1] * 33),
    "rank-65": json.dumps([1] * 65),
    "deep": nest(100_000),
}
#: The same for chunks.
CHUNKS = {
    "zero": "[0, 4]",
    "negative": "[-4, 4]",
    "float": "[4.0, 4]",
    "boolean": "[true, 4]",
    "nan": "[NaN, 4]",
    "huge": "[4611686018427387904, 4611686018427387904]",
    "rank": "[4]",
    "null": "null",
}
