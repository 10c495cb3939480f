"""Access patterns in words: what they mean, and one clear error for each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from reblock.advisor.document import ArrayAxes, from_document, from_presets, from_text, is_preset
from reblock.errors import UsageError
from reblock.model import AccessPattern, Alignment

WEATHER = ArrayAxes((365, 90, 180), ("time", "lat", "lon"))
PLAIN = ArrayAxes((365, 90, 180))


def shapes(pattern: AccessPattern) -> list[tuple[int, ...]]:
    return [one.shape for one in pattern.classes]


def test_a_document() -> None:
    pattern = from_document(
        {
            "model": "aligned",
            "axes": ["lon", "lat", "time"],
            "classes": [
                {"name": "series", "shape": {"time": -1, "lat": 1, "lon": 2}, "weight": 3},
                {"shape": ["full", 5, 1], "operation": "write", "at": "anywhere"},
                {"shape": [2, 2, 2], "at": [[10, 20, 30], [0, 0, 0]]},
                {"shape": {"lat": 7}},
            ],
        },
        WEATHER,
    )
    assert shapes(pattern) == [(365, 1, 2), (1, 5, 180), (2, 2, 2), (365, 7, 180)]
    assert [one.weight for one in pattern.classes] == [3, 1, 1, 1]
    assert [one.writes for one in pattern.classes] == [False, True, False, False]
    assert [one.alignment.value for one in pattern.classes] == ["aligned", "anywhere", "positions", "aligned"]
    assert pattern.classes[2].positions is not None
    assert pattern.classes[2].positions.starts.tolist() == [[30, 20, 10], [0, 0, 0]]
    assert [one.label for one in pattern.classes] == ["series", "write 1,5,180", "2,2,2", "365,7,180"]
    assert pattern.model == "mixed"


def test_the_papers_text_form() -> None:
    pattern = from_text("# Fig. 2\n2\n10 40 10 1\n\n20 5 100 3\n", WEATHER)
    assert shapes(pattern) == [(10, 40, 10), (20, 5, 100)]
    assert pattern.weights.tolist() == [0.25, 0.75]
    assert pattern.model == Alignment.ALIGNED


def test_presets() -> None:
    assert shapes(from_presets("time-series=3, maps,cubes,slices:lat,slices:2", WEATHER)) == [
        (365, 1, 1),
        (1, 90, 180),
        (64, 64, 64),
        (365, 1, 180),
        (365, 90, 1),
    ]
    assert from_presets("time-series=3,maps", WEATHER).weights.tolist() == [0.75, 0.25]
    swapped = ArrayAxes((90, 180, 365), ("lat", "lon", "Time"))
    assert shapes(from_presets("time-series", swapped)) == [(1, 1, 365)]
    assert shapes(from_presets("time-series", PLAIN)) == [(365, 1, 1)]
    assert is_preset("maps")
    assert not is_preset("maps.toml")
    assert not is_preset("slices")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "an access pattern is an object"),
        ({}, "the access pattern has no classes"),
        ({"classes": []}, "the access pattern has no classes"),
        ({"classes": "x"}, "are a list"),
        ({"classes": [3]}, "class 1 is an object"),
        ({"classes": [{}]}, "class 1 has no shape"),
        ({"colour": 1}, "has no 'colour'"),
        ({"classes": [{"shape": [1, 1, 1], "wieght": 2}]}, "class 1 has no 'wieght'"),
        ({"classes": [{"shape": [1, 1]}]}, "class 1 has 2 axes, the array has 3"),
        ({"classes": [{"shape": [366, 1, 1]}]}, r"length 366 on axis 0 must be from 1 to 365"),
        ({"classes": [{"shape": [0, 1, 1]}]}, "length 0 on axis 0"),
        ({"classes": [{"shape": [1.5, 1, 1]}]}, "whole numbers, not 1.5"),
        ({"classes": [{"shape": [True, 1, 1]}]}, "True is not a length"),
        ({"classes": [{"shape": {"height": 1}}]}, "'height' names no axis"),
        ({"classes": [{"shape": {"time": 1, "0": 2}}]}, "names an axis twice"),
        ({"classes": [{"shape": [1, 1, 1], "weight": 0}]}, "a weight is a number above 0, not 0"),
        ({"classes": [{"shape": [1, 1, 1], "weight": -1}]}, "a weight is a number above 0, not -1"),
        ({"classes": [{"shape": [1, 1, 1], "weight": float("nan")}]}, "above 0, not nan"),
        ({"classes": [{"shape": [1, 1, 1], "weight": 10**400}]}, "above 0, not 1000"),
        ({"classes": [{"shape": [1, 1, 1], "weight": "3"}]}, "above 0, not '3'"),
        ({"classes": [{"shape": [1, 1, 1], "at": "somewhere"}]}, "aligned or anywhere, not 'somewhere'"),
        ({"classes": [{"shape": [1, 1, 1], "at": []}]}, "a list of starts, not"),
        ({"classes": [{"shape": [1, 1, 1], "at": [[1, 1]]}]}, "class 1 has 2 axes"),
        ({"classes": [{"shape": [5, 1, 1], "at": [[361, 0, 0]]}]}, "at 361,0,0 does not fit"),
        ({"classes": [{"shape": [1, 1, 1], "at": [[-1, 0, 0]]}]}, "at -1,0,0 does not fit"),
        ({"classes": [{"shape": [1, 1, 1], "operation": "scan"}]}, "read or write, not 'scan'"),
        ({"classes": [{"shape": [1, 1, 1], "name": 3}]}, "the name is text"),
        ({"model": "positions", "classes": []}, "aligned or anywhere, not 'positions'"),
        ({"axes": ["time", "lat"], "classes": []}, "name each of the 3 axes once"),
        ({"axes": "time", "classes": []}, "a list of names"),
        ({"classes": [{"shape": [1, 1, 1]}] * 21}, "21 classes of accesses, the limit is 20"),
    ],
)
def test_mistakes_in_documents(document: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_document(document, WEATHER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with a line that holds the number"),
        ("1 2 3 4\n", "begins with a line that holds the number"),
        ("two\n1 1 1 1\n", "whole numbers, not 'two'"),
        ("2\n1 1 1 1\n", "promises 2 classes of accesses, 1 follow"),
        ("1\n1 1 1\n", "class 1 has 3 numbers: 3 lengths and a weight"),
        ("1\n1 1 1 0\n", "a weight is a number above 0, not 0"),
        ("1\n1 1 1 x\n", "a weight is a number above 0, not 'x'"),
        ("1\n1 1 999 1\n", "length 999 on axis 2"),
        ("0\n", "the access pattern has no classes"),
        ("21\n" + "1 1 1 1\n" * 21, "the limit is 20"),
    ],
)
def test_mistakes_in_texts(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_text(text, WEATHER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maps=0", "above 0, not 0"),
        ("maps=", "above 0, not ''"),
        ("slices:height", "names no axis"),
        ("maps,x", "not a preset"),
    ],
)
def test_mistakes_in_presets(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_presets(text, WEATHER)
