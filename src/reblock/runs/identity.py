"""Identity: all that makes two runs the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from reblock.engine import View
from reblock.model import Format, Plan, Schema, element
from reblock.runs.source import Source
from reblock.storage import attributes
from reblock.storage.location import Location, absolute

#: Differences that a message names.
_SHOWN = 3


def identify(
    view: View, source: Source, target: Location, made: tuple[Format, Schema], plan: Plan, **options: Any
) -> dict[str, Any]:
    """The problem of a run as JSON values: two runs are the same where these are equal."""
    where = Location.parse(view.store.location)
    kind, schema = made
    problem = {
        "source": {
            "array": str(Location(absolute(where.path), where.inner)),
            "format": view.store.format,
            "layout": view.store.layout.to_json(),
            **source.identity,
        },
        "region": [list(pair) for pair in zip(view.region.start, view.region.stop, strict=True)],
        "transpose": list(view.axes),
        "missing chunks": "error" if view.strict else "fill",
        "target": {
            "array": str(Location(absolute(target.path), target.inner)),
            "format": kind.name,
            **_describe(schema),
        },
        **options,
        "plan": plan.to_json(),
    }
    found: dict[str, Any] = json.loads(json.dumps(problem))
    return found


def job_of(problem: Mapping[str, Any]) -> str:
    """What a problem makes of what, as one short word: not where either lies, nor how it is done.

    It is stored with the array, see `Record`.
    """
    source, target = problem["source"], problem["target"]
    made = {
        "source": [Location.parse(source["array"]).inner, list(source["files"].values()), source["chunks"]],
        "target": {key: value for key, value in target.items() if key != "array"},
        **{key: problem[key] for key in ("region", "transpose", "missing chunks")},
    }
    return hashlib.blake2b(json.dumps(made, sort_keys=True).encode(), digest_size=16).hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two problems, in words; the plan only where nothing else explains it."""
    before, now = ({**one, "source": {**one["source"], "chunks": None}} for one in (before, now))
    found = list(_differences({**before, "plan": None}, {**now, "plan": None}))
    found = found or list(_differences(before.get("plan"), now.get("plan"), "plan"))
    return [*found[:_SHOWN], *([f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]


def source_changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether it is the files of the same source that differ."""
    one, two = before["source"], now["source"]
    # Another region is another set of chunks.
    same = one["array"] == two["array"] and before["region"] == now["region"]
    return bool(same and any(one.get(key) != two[key] for key in ("files", "chunks")))


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
        "codec": str(schema.codec),
        "fill value": None if fill is None else element(fill, schema.dtype).tobytes().hex(),
        "axes": None if schema.axes is None else list(schema.axes),
        "attributes": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
    }
