"""Identity: what makes two runs the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reblock.engine import View
from reblock.engine.casting import rule_of
from reblock.engine.digest.tables import type_text
from reblock.model import Format, GroupSchema, Schema, TableSchema, element
from reblock.runs.disks import disks_of
from reblock.runs.source import Files, Source
from reblock.runs.work import DatasetWork
from reblock.storage import attributes
from reblock.storage.location import Location
from reblock.storage.patches import patches_of

#: The most differences that a message names.
_SHOWN = 3


def identify_array(view: View, source: Source, inner: str, format: Format, schema: Schema) -> dict[str, Any]:
    """The problem of one array of a run as JSON values."""
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
        **({"misfits": "error" if view.checked else "cast"} if rule_of(view.layout.dtype, schema.dtype) else {}),
        "target": {"inner": inner, "format": format.name, **_describe(schema), **_describe_format(format, inner)},
    }
    found: dict[str, Any] = json.loads(json.dumps(problem))
    return found


def identify_dataset(work: DatasetWork, files: Files, format: Format) -> dict[str, Any]:
    """What a dataset is besides its arrays: groups, attributes, dimensions and tables."""
    tree = work.tree
    return {
        "source": {
            "inner": Location.parse(work.source.location).inner,
            "format": work.source.format,
            "files": [one for _, one in files],
        },
        "target": {
            "inner": work.inner,
            "format": format.name,
            "groups": {name: _describe_group(group) for name, group in tree.groups.items()},
            "tables": {one.name: _describe_table(tree.tables[one.name], one.ranges) for one in work.tables},
        },
    }


def identify(arrays: Mapping[str, Mapping[str, Any]], dataset: Mapping[str, Any] | None) -> dict[str, Any]:
    """The problem of a run as JSON values: two runs are the same if these are equal.

    It holds the source's content and what the target is to be: no path, no plan, and nothing of the machine.
    """
    return {"arrays": dict(arrays), "dataset": None if dataset is None else dict(dataset)}


def job_of(problem: Mapping[str, Any]) -> str:
    """The job of a run as one short word: its source and its target, but neither their paths nor the plan.

    It is stored with the target, see `Record`.
    """
    arrays, dataset = problem["arrays"], problem["dataset"]
    if dataset is None and "" in arrays:
        return job_of_array(arrays[""])
    if dataset is None:
        return _word({name: job_of_array(one) for name, one in arrays.items()})
    target = {key: value for key, value in dataset["target"].items() if key != "inner"}
    jobs = {name: job_of_array(one) for name, one in arrays.items()}
    return _word({"source": dataset["source"]["files"], "target": target, "arrays": jobs})


def job_of_array(problem: Mapping[str, Any]) -> str:
    """The job that makes one array."""
    source, target = problem["source"], problem["target"]
    return _word(
        {
            "source": [source[key] for key in ("inner", "files", "chunks", "object") if key in source],
            "target": {key: value for key, value in target.items() if key != "inner"},
            **{key: problem[key] for key in ("region", "transpose", "missing chunks", "misfits") if key in problem},
        }
    )


def _word(made: Any) -> str:
    return hashlib.blake2b(json.dumps(made, sort_keys=True).encode(), digest_size=16).hexdigest()


def began_with_object(header: Mapping[str, Any]) -> bool:
    """Whether a journal is of a run that read an object, which nothing can resume."""
    return any("object" in one["source"] for one in header["problem"]["arrays"].values())


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between two problems, in words."""
    one, two = before["arrays"], now["arrays"]
    found = [f"array {name!r} is new" for name in two if name not in one]
    found += [f"array {name!r} is left out" for name in one if name not in two]
    for name in one:
        if name in two:
            before_one, now_one = (
                {**side, "source": {**side["source"], "files": None, "chunks": None}} for side in (one[name], two[name])
            )
            found += _differences(before_one, now_one, name)
    before_around, now_around = (side["dataset"] and {**side["dataset"], "source": None} for side in (before, now))
    found += _differences(before_around, now_around)
    found = found or ["the source"]
    return [*found[:_SHOWN], *([f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]


def source_changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the problems differ only in the files of the source."""
    one, two = before["dataset"], now["dataset"]
    if (one is None) != (two is None):
        return False
    if one is not None and any(one["source"][key] != two["source"][key] for key in ("inner", "format")):
        return False
    arrays = [(before["arrays"][name], new) for name, new in now["arrays"].items() if name in before["arrays"]]
    if not all(_reads_the_same(*pair) for pair in arrays):
        return False
    files = one is not None and one["source"]["files"] != two["source"]["files"]
    return files or any(a["source"][key] != b["source"][key] for a, b in arrays for key in ("files", "chunks"))


def _reads_the_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    one, two = before["source"], now["source"]
    # Another region has another set of chunks.
    return before["region"] == now["region"] and all(one[key] == two[key] for key in ("inner", "format", "layout"))


def _differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differences(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif before != now:
        yield f"{name} was {_short(before)}, is {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}…"


def _describe_group(group: GroupSchema) -> dict[str, Any]:
    dimensions = {name: [one.length, one.unlimited] for name, one in group.dimensions.items()}
    return {"attributes": _describe_attributes(group.attributes), "dimensions": dimensions}


def _describe_table(table: TableSchema, ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    return {
        "region": [list(pair) for pair in ranges],
        "type": type_text(table.dtype),
        "kind": table.kind,
        "chunks": None if table.chunks is None else list(table.chunks),
        "axes": None if table.axes is None else list(table.axes),
        "fill value": repr(table.fill_value),
        "attributes": _describe_attributes({**table.attributes, "": json.dumps(dict(table.details), default=repr)}),
    }


def _describe_attributes(given: Mapping[str, Any]) -> str:
    """A short word for attributes."""
    kept, _ = attributes.to_json(given)
    text = json.dumps(kept, sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _describe_format(format: Format, inner: str) -> dict[str, Any]:
    """The disks of the target, because finished boxes are on these disks; or the part that the run changes."""
    if patches := patches_of(format):
        return {"change": patches["" if "" in patches else inner].change.identity}
    disks = disks_of(format)
    return {} if disks is None else {"disks": list(disks.folders), "placement": disks.placement}


def _describe(schema: Schema) -> dict[str, Any]:
    fill = schema.fill_value
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
        "attributes": _describe_attributes(schema.attributes),
        **({"unlimited": list(schema.unlimited)} if any(schema.unlimited) else {}),
    }
