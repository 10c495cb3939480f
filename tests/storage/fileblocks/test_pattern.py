"""Patterns of block names: integer fields only, inside the folder, and no two blocks of one name."""

from __future__ import annotations

import itertools

import pytest

from reblock.errors import UsageError
from reblock.storage.fileblocks.pattern import NamePattern, guess_pattern


@pytest.mark.parametrize(
    ("text", "index", "name"),
    [
        ("b_{0}_{1}_{2}.nii", (1, 20, 3), "b_1_20_3.nii"),
        ("{2}-{0}-{1}.npy", (1, 20, 3), "3-1-20.npy"),
        ("z{0:04}.npy", (7,), "z0007.npy"),
        ("z{0:02d} of it.npy", (123,), "z123 of it.npy"),
        ("{index}.h5", (1, 2), "1_2.h5"),
        ("{index}.h5", (), "0.h5"),
    ],
)
def test_names_and_their_numbers(text: str, index: tuple[int, ...], name: str) -> None:
    pattern = NamePattern(text)
    assert pattern.name(index) == name
    assert pattern.match(name, len(index)) == index
    assert pattern.match(name + "x", len(index)) is None
    assert pattern.match("x" + name, len(index)) is None
    assert pattern.is_block(name, tuple(n + 1 for n in index))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain.npy",
        "../{0}.npy",
        "a/{0}.npy",
        "a\\{0}.npy",
        "a\0{0}.npy",
        ".{0}.npy",
        "{0}{1}.npy",
        "{0}1{1}.npy",
        "a1{0}.npy",
        "{0}1.npy",
        "{1}.npy",
        "{0}_{0}.npy",
        "{0}_{2}.npy",
        "{0!r}.npy",
        "{0.__class__}.npy",
        "{0[0]}.npy",
        "{x}.npy",
        "{}.npy",
        "{0:x}.npy",
        "{0:>9}.npy",
        "{0:099}.npy",
        "{0}{{.npy",
        "{index}_{index}.npy",
        "{index}_{0}.npy",
        "x" * 200 + "{0}.npy",
    ],
)
def test_other_patterns_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        NamePattern(text)


def test_no_two_blocks_have_the_same_name() -> None:
    for text in ("{0}_{1}.npy", "a{1:03}b{0}.npy", "{index}.npy"):
        pattern = NamePattern(text)
        names = {pattern.name(index): index for index in itertools.product(range(13), range(113))}
        assert len(names) == 13 * 113
        assert all(pattern.match(name, 2) == index for name, index in names.items())


def test_strange_files_are_no_blocks() -> None:
    pattern = NamePattern("b_{0}_{1}.npy")
    assert pattern.is_block("b_1_2.npy", (2, 3))
    assert not pattern.is_block("b_2_2.npy", (2, 3))
    # Not a name that this pattern makes, although other programs may mean the same.
    assert not pattern.is_block("b_01_2.npy", (2, 3))
    assert pattern.match("b_01_2.npy", 2) == (1, 2)
    assert pattern.match("b_" + "9" * 30 + "_2.npy", 2) is None


def test_patterns_are_guessed_from_names() -> None:
    found = guess_pattern(["scan7_y0_x1.h5", "scan7_y10_x2.h5"], 2)
    assert found is not None
    assert found.text == "scan7_y{0}_x{1}.h5"
    assert guess_pattern(["a_0_1.npy", "b_0_1.npy"], 2) is None
    assert guess_pattern(["a_0.npy"], 2) is None
