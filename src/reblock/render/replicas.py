"""Text of replicas: which copies there are, what reads cost on them, and what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reblock.render.columns import fields, plain, table
from reblock.units import format_count, format_seconds, format_size

Document = Mapping[str, Any]


def replica_set(document: Document) -> str:
    """What `replicas create` has made."""
    rows = [
        [str(number), _lengths(one["chunks"]), ", ".join(one["classes"]), one["path"]]
        for number, one in enumerate(document["copies"])
    ]
    lines = [f"{len(rows)} copies, generation {document['generation']}"]
    lines += table(["copy", "chunks", "made for", "path"], rows, words=4)
    lines += fields([("digest", str(document["digest"] or "none"))])
    return "\n".join(lines)


def explanation(document: Document) -> str:
    """What a read costs on each copy."""
    region = ",".join(f"{start}:{stop}" for start, stop in document["region"])
    rows = [
        [
            f"{one['copy']}{' ←' if number == 0 else ''}",
            _lengths(one["chunks"]),
            format_count(round(one["blocks"])),
            format_size(round(one["bytes"])),
            format_seconds(one["seconds"]),
        ]
        for number, one in enumerate(document["prices"])
    ]
    lines = [f"{plain(document['replicas'])} [{region}]: copy {document['copy']} is the cheapest"]
    lines += table(["copy", "chunks", "blocks", "bytes", "seconds"], rows, words=2)
    more = [("device", plain(document["device"])), *(("damaged", one) for one in document["damaged"])]
    return "\n".join([*lines, *fields(more)])


def read_region(document: Document) -> str:
    """A region that was read."""
    if document.get("output"):
        return f"{plain(document['output'])}: {_lengths(document['shape'])} from copy {document['copy']}"
    return str(document["elements"])


def update(document: Document) -> str:
    """What an update has done."""
    pairs = [
        ("chunks", f"{document['chunks']:,} written, {document['linked']:,} linked"),
        ("digest", str(document["digest"])),
    ]
    if document["removed"]:
        pairs.append(("removed", f"generation {', '.join(map(str, document['removed']))}"))
    return "\n".join([f"generation {document['generation']}", *fields(pairs)])


def repair(document: Document) -> str:
    """What a repair has found and done."""
    pairs = [("mended", one) for one in document["mended"]] + [("lost", one) for one in document["lost"]]
    found = (
        f"{document['checked']:,} chunks checked, {len(document['mended']):,} mended, {len(document['lost']):,} lost"
    )
    return "\n".join([found, *fields(pairs)])


def _lengths(lengths: Any) -> str:
    return ",".join(map(str, lengths)) or "()"
