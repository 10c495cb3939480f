"""Formats without codecs and shards: what they say if the user requested one."""

from __future__ import annotations

from collections.abc import Collection

from reblock.errors import UsageError
from reblock.geometry.grid import chunk_text
from reblock.model.schema import Schema


def refuse_encoding(schema: Schema, asked: Collection[str], what: str, instead: str) -> None:
    """Raise UsageError for a codec or shards that the user requested; `what` says why there are none."""
    if schema.codec and "codec" in asked:
        raise UsageError(f"{what}: codec {schema.codec} is not possible; try {instead}")
    if schema.shards is not None and "shards" in asked:
        raise UsageError(f"{what}: shards {chunk_text(schema.shards)} are not possible; try {instead}")
