"""Sample datasets: attributes of every type, names, tables, and a small tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.model.codec import Codec
from reblock.model.dataset import Dimension, GroupSchema, Tree
from reblock.model.schema import Schema

#: Values of attributes, each with a type of its own.
TYPED: dict[str, Any] = {
    **{f"scalar {kind}": np.dtype(kind).type(3) for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "u8", "f4", "f8")},
    **{f"array {kind}": np.arange(3).astype(kind) for kind in ("i1", "<i2", ">i4", "i8", "u8", "<f4", ">f8")},
    "one": np.array([0.1], "f4"),
    "nothing": np.zeros(0, "f4"),
    "special": np.array([np.nan, np.inf, -np.inf, -0.0], "f4"),
    "text": "Überblick",
    "bytes": np.bytes_(b"plain"),
    "texts": ["a", "", "日本"],
}
#: Names that formats must keep apart from each other and from their own.
NAMES = (
    "a b",
    "ä",
    "日本語",
    "x.y",
    "with-dash",
    "UPPER",
    "upper",
    "c",
    "0",
    "data",
    "_leading",
    "a'quote",
    'a"b',
    "%41",
)


_RECORDS = np.zeros((50,), [("a", "<i4"), ("b", ">f8"), ("s", "S3")])
_RECORDS["a"], _RECORDS["b"], _RECORDS["s"] = np.arange(50), np.arange(50) / 3, b"xy"
_COLOURS = {"names": {"RED": 1, "GREEN": 2}}
#: Tables: elements, kind, and details of the type.
TABLES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "text": (np.array([f"{n} ünï" * (n % 5) for n in range(50)], object), "text", {}),
    "long text": (np.array(["x" * 20_000] * 30, object), "text", {}),
    "bytes": (np.array([b"\xff\0" * (n % 5) for n in range(50)], object), "bytes", {}),
    "text of two axes": (np.array([[f"{n},{m}" for m in range(4)] for n in range(20)], object), "text", {}),
    "text without axes": (np.array("alone", object), "text", {}),
    "no text": (np.empty((0, 3), object), "text", {}),
    "records": (_RECORDS, "record", {}),
    "enumeration": (np.array([[1, 2], [2, 1], [1, 1]] * 5, "<i2"), "enum", _COLOURS),
}


def small_tree() -> Tree:
    """Arrays of several groups that share axes."""
    i4, f4, gzip = np.dtype("<i4"), np.dtype("<f4"), Codec.parse("gzip:1")
    return Tree(
        {
            "": GroupSchema({"title": "all", "version": np.int16(3)}, {"time": Dimension(6), "x": Dimension(4)}),
            "deep": GroupSchema({"empty": ""}),
            "deep/er": GroupSchema({}, {"y": Dimension(5)}),
            "deep/er/none": GroupSchema({"note": "no array is here"}),
        },
        {
            "time": Schema((6,), np.dtype("<f8"), (6,), axes=("time",), attributes={"units": "days"}),
            "t2m": Schema(
                (6, 4), f4, (2, 3), axes=("time", "x"), fill_value=np.float32(-1), codec=Codec.parse("gzip:1")
            ),
            "deep/count": Schema((6,), i4, (4,), axes=("time",)),
            "deep/er/y": Schema((5,), i4, (5,), axes=("y",), codec=gzip),
            "deep/er/t2m": Schema((6, 5), f4, (6, 5), axes=("time", "y"), attributes={"scale": np.float32(0.5)}),
        },
    )
