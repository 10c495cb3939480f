"""Names of block files: a pattern with one number for each axis, expanded and recognised without `str.format`.

::

    b_{0}_{1}_{2}.nii      {N} is the block's number along axis N
    z{0:04}/…              refused: a name stays inside its folder
    b_{0:04}.npy           padded with zeros to at least four digits
    {index}.h5             all numbers, joined by _

A pattern names every axis once, and no two blocks can have the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from reblock.errors import UsageError
from reblock.model.store import Index

#: All numbers of a block, joined by _.
INDEX = "{index}"
#: The longest name of a file.
MAX_NAME_BYTES = 255
#: The most digits that a number is padded to.
MAX_DIGITS = 18
_FIELD = re.compile(r"\{(?:([0-9]{1,2})(?::0([0-9]{1,2})d?)?)\}")
_DIGITS = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class NamePattern:
    """A checked pattern of file names."""

    text: str
    """The pattern, as given."""

    def __post_init__(self) -> None:
        text = self.text
        if not text or set(text) & set("/\\\0") or text.startswith("."):
            raise self._wrong("it must be a file name inside the folder that does not begin with a dot")
        rest = _FIELD.sub("0", text.replace(INDEX, "0"))
        if "{" in rest or "}" in rest:
            raise self._wrong("only {0}, {1}, …, {0:04} and {index} may stand in braces")
        if len(rest.encode()) > MAX_NAME_BYTES // 2:
            raise self._wrong(f"it has {len(rest.encode())} bytes, the limit is {MAX_NAME_BYTES // 2}")
        if text.count(INDEX) > 1 or (INDEX in text and _FIELD.search(text)):
            raise self._wrong("{index} stands for all numbers: name it once, and no others")
        axes = [axis for axis, _ in self.fields]
        if not axes and INDEX not in text:
            raise self._wrong("it has no number in it: name one for each axis, such as {0}_{1}")
        if sorted(axes) != list(range(len(axes))):
            raise self._wrong("it must name every axis once, from {0} on")
        if any(width > MAX_DIGITS for _, width in self.fields):
            raise self._wrong(f"numbers are padded to at most {MAX_DIGITS} digits")
        if any(not between or between[0].isdigit() or between[-1].isdigit() for between in self._literals[1:-1]):
            raise self._wrong("numbers must be separated by something that is no digit")
        if self._literals[0][-1:].isdigit() or self._literals[-1][:1].isdigit():
            raise self._wrong("a digit beside a number makes names ambiguous")

    @property
    def ndim(self) -> int | None:
        """Number of axes; None if any number will do."""
        return None if INDEX in self.text else len(self.fields)

    @cached_property
    def fields(self) -> tuple[tuple[int, int], ...]:
        """Axis and number of digits of each field, as they stand in the pattern; none for {index}."""
        return tuple((int(axis), int(width or 0)) for axis, width in _FIELD.findall(self.text))

    @cached_property
    def _literals(self) -> tuple[str, ...]:
        """The text before, between and after the fields."""
        if INDEX in self.text:
            return tuple(self.text.split(INDEX))
        parts, end = [], 0
        for found in _FIELD.finditer(self.text):
            parts.append(self.text[end : found.start()])
            end = found.end()
        return (*parts, self.text[end:])

    def check_axes(self, ndim: int) -> None:
        """Raise UsageError if the pattern is not for arrays of that many axes."""
        if self.ndim not in (None, ndim):
            raise self._wrong(f"it names {self.ndim} axes, and the array has {ndim}")

    def name(self, index: Index) -> str:
        """Name of a block's file."""
        if INDEX in self.text:
            return self.text.replace(INDEX, "_".join(map(str, index)) or "0")
        made = [self._literals[0]]
        for (axis, width), after in zip(self.fields, self._literals[1:], strict=True):
            made += [str(index[axis]).zfill(width), after]
        return "".join(made)

    def match(self, name: str, ndim: int) -> Index | None:
        """The numbers in a file name, by axis; None if it does not fit the pattern.

        Numbers may be padded with more zeros than the pattern has: other programs do that.
        """
        before, *after = self._literals
        if not name.startswith(before):
            return None
        if INDEX in self.text:
            middle = name[len(before) : len(name) - len(after[0])]
            parts = middle.split("_") if name.endswith(after[0]) else []
            wanted = ndim or 1
            if len(parts) != wanted or not all(map(_DIGITS.fullmatch, parts)):
                return None
            return tuple(map(int, parts)) if ndim else ()
        place, found = len(before), [0] * len(self.fields)
        for (axis, _), literal in zip(self.fields, after, strict=True):
            digits = _DIGITS.match(name, place)
            if digits is None or not name.startswith(literal, digits.end()):
                return None
            found[axis] = int(digits[0])
            place = digits.end() + len(literal)
        return tuple(found) if place == len(name) else None

    def is_block(self, name: str, counts: Sequence[int]) -> bool:
        """Whether a name is exactly that of a block in a grid with `counts` blocks along each axis."""
        found = self.match(name, len(counts))
        if found is None or any(number >= count for number, count in zip(found, counts, strict=True)):
            return False
        return self.name(found) == name

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"the pattern {self.text!r} of block files cannot be used: {why}")


def guess_pattern(names: Sequence[str], ndim: int) -> NamePattern | None:
    """The pattern that all of some file names follow: the last `ndim` numbers in them are the positions."""
    texts = {_guess(name, ndim) for name in names}
    text = texts.pop() if len(texts) == 1 else None
    if text is None:
        return None
    try:
        return NamePattern(text)
    except UsageError:
        return None


def _guess(name: str, ndim: int) -> str | None:
    found: list[re.Match[str]] = list(_numbers(name))[-ndim:] if ndim else []
    if len(found) < ndim or not ndim:
        return None
    made, end = "", 0
    for axis, number in enumerate(found):
        made, end = f"{made}{name[end : number.start()]}{{{axis}}}", number.end()
    return made + name[end:]


def _numbers(name: str) -> Iterator[re.Match[str]]:
    """Numbers in a name, except in its ending, such as the 5 of .h5."""
    stem = len(name.rpartition(".")[0]) or len(name)
    return re.finditer(r"[0-9]+", name[:stem])
