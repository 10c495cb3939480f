"""Arrays and datasets as JSON values, as `reblock info --json` prints them."""

from __future__ import annotations

from typing import Any

from reblock.model import GroupSchema, Schema, TableSchema, TreeStore
from reblock.storage.attributes import to_json


def describe_array(schema: Schema, format: str) -> dict[str, Any]:
    """Layout and metadata of an array."""
    return {
        "format": format,
        "shape": list(schema.shape),
        "dtype": schema.dtype.str,
        "chunks": [list(cut) if isinstance(cut, tuple) else cut for cut in schema.chunks],
        "shards": list(schema.shards) if schema.shards else None,
        "order": list(schema.order),
        "codec": str(schema.codec),
        "fill_value": _value(schema.fill_value),
        "axes": list(schema.axes) if schema.axes else None,
        "digest": schema.record.digest,
        "attributes": to_json(schema.attributes)[0],
    }


def describe_dataset(store: TreeStore, group: str = "") -> dict[str, Any]:
    """Groups, arrays and tables of a dataset, or of one of its groups."""
    tree, inside = store.tree, f"{group}/" if group else ""
    return {
        "format": store.format,
        "digest": store.record.digest,
        "attributes": to_json(tree.groups[group].attributes)[0],
        "groups": {
            name[len(inside) :] if name != group else "": _describe_group(one)
            for name, one in tree.groups.items()
            if name == group or name.startswith(inside)
        },
        "arrays": {
            name[len(inside) :]: describe_array(schema, store.format)
            for name, schema in tree.arrays.items()
            if name.startswith(inside)
        },
        "tables": {
            name[len(inside) :]: _describe_table(table)
            for name, table in tree.tables.items()
            if name.startswith(inside)
        },
        "notes": list(tree.notes),
    }


def _describe_group(group: GroupSchema) -> dict[str, Any]:
    return {
        "attributes": to_json(group.attributes)[0],
        "dimensions": {
            name: {"length": one.length, "unlimited": one.unlimited} for name, one in group.dimensions.items()
        },
    }


def _describe_table(table: TableSchema) -> dict[str, Any]:
    return {
        "shape": list(table.shape),
        "dtype": str(table.dtype),
        "kind": table.kind,
        "chunks": list(table.chunks) if table.chunks else None,
        "axes": list(table.axes) if table.axes else None,
        "attributes": to_json(table.attributes)[0],
        "unsupported": table.why or None,
    }


def _value(value: Any) -> Any:
    return to_json({"fill": value})[0].get("fill", str(value))
