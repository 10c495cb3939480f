"""Identity: what makes two runs the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from reblock.engine import View
from reblock.model import Format, Schema, element
from reblock.runs.source import Source
from reblock.storage import attributes
from reblock.storage.location import Location

#: The most differences that a message names.
_SHOWN = 3


def identify(view: View, source: Source, inner: str, format: Format, schema: Schema) -> dict[str, Any]:
    """The problem of a run as JSON values: two runs are the same if these are equal.

    It holds the source's content and what the target is to be: no path, no plan, and nothing of the machine.
    """
    problem = {
        "source": {
            "inner": Location.parse(view.store.location).inner,
            "format": view.store.format,
            "layout": view.store.layout.to_json(),
            **source.identity,
        },
        "region": [list(pair) for pair in zip(view.region.start, view.region.stop, strict=True)],
        "transpose": list(view.axes),
        "missing chunks": "error" if view.strict else "fill",
        "target": {"inner": inner, "format": format.name, **_describe(schema)},
    }
    found: dict[str, Any] = json.loads(json.dumps(problem))
    return found


def job_of(problem: Mapping[str, Any]) -> str:
    """The job of a problem as one short word: its source and its target, but neither their paths nor the plan.

    It is stored with the array, see `Record`.
    """
    source, target = problem["source"], problem["target"]
    made = {
        "source": [source[key] for key in ("inner", "files", "chunks", "object") if key in source],
        "target": {key: value for key, value in target.items() if key != "inner"},
        **{key: problem[key] for key in ("region", "transpose", "missing chunks")},
    }
    return hashlib.blake2b(json.dumps(made, sort_keys=True).encode(), digest_size=16).hexdigest()


def began_with_object(header: Mapping[str, Any]) -> bool:
    """Whether a journal is of a run that read an object, which nothing can resume."""
    return "object" in header["problem"]["source"]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between two problems, in words."""
    before, now = ({**one, "source": {**one["source"], "files": None, "chunks": None}} for one in (before, now))
    found = list(_differences(before, now)) or ["the source"]
    return [*found[:_SHOWN], *([f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]


def source_changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the problems differ only in the files of the source."""
    one, two = before["source"], now["source"]
    # Another region has another set of chunks.
    same = before["region"] == now["region"] and all(one[key] == two[key] for key in ("inner", "format", "layout"))
    return bool(same and any(one[key] != two[key] for key in ("files", "chunks")))


def _differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differences(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif before != now:
        yield f"{name} was {_short(before)}, is {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}…"


def _describe(schema: Schema) -> dict[str, Any]:
    fill = schema.fill_value
    kept, _ = attributes.to_json(schema.attributes)
    text = json.dumps(kept, sort_keys=True, default=repr)
    return {
        "shape": list(schema.shape),
        "dtype": schema.dtype.str,
        "chunks": [cut if isinstance(cut, int) else list(cut) for cut in schema.chunks],
        "shards": None if schema.shards is None else list(schema.shards),
        "order": list(schema.order),
        **({"chunk order": schema.chunk_order} if schema.chunk_order else {}),
        "codec": str(schema.codec),
        "fill value": None if fill is None else element(fill, schema.dtype).tobytes().hex(),
        "axes": None if schema.axes is None else list(schema.axes),
        "attributes": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
    }
