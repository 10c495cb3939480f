"""Looking at arrays: what they are, and whether two are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reblock.api.array import Array, Where, open
from reblock.engine import View, compare, digest
from reblock.geometry.notation import parse_order, parse_region
from reblock.model import Store, Sums
from reblock.storage.attributes import to_json
from reblock.units import parse_size

#: Most differing boxes that `verify` lists.
MANY_DIFFERENCES = 10


@dataclass(frozen=True)
class Verdict:
    """Whether two arrays hold the same elements."""

    equal: bool
    """The answer."""
    differences: tuple[str, ...]
    """What differs, first things first; also a stored digest that does not fit."""
    source_digest: str | None = None
    """Digest of the source's elements; None where the shapes or types differ."""
    target_digest: str | None = None
    """Digest of the target's elements, likewise."""

    def __bool__(self) -> bool:
        return self.equal

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "source_digest": self.source_digest,
            "target_digest": self.target_digest,
            "differences": list(self.differences),
        }


def verify(
    source: Where | Array,
    target: Where | Array,
    *,
    region: str | Sequence[slice] | None = None,
    transpose: str | Sequence[int] | None = None,
    memory: str | int = "256MiB",
    from_format: str | None = None,
    to_format: str | None = None,
    allow_external: Sequence[Where] = (),
) -> Verdict:
    """Whether two arrays hold the same elements, bit by bit, whatever their layouts, in one pass over both.

    Where a digest is stored with the target, it is compared with that of the elements that are there now.
    """
    one = open(source, format=from_format, allow_external=allow_external).store
    two = open(target, format=to_format, allow_external=allow_external).store
    left = View(one, parse_region(region, one.layout.shape), parse_order(transpose, one.layout.ndim))
    right = View.whole(two)
    if left.layout.shape != right.layout.shape:
        return Verdict(False, (f"shape {left.layout.shape} against {right.layout.shape}",))
    kinds = [view.layout.dtype.newbyteorder("=") for view in (left, right)]
    if kinds[0] != kinds[1]:
        return Verdict(False, (f"dtype {kinds[0]} against {kinds[1]}",))
    found: list[str] = []
    totals = [Sums(), Sums()]
    for part in compare(left, right, memory_bytes=parse_size(memory)):
        totals = [totals[0] + part.one, totals[1] + part.two]
        if not part.same and len(found) < MANY_DIFFERENCES:
            found.append(f"box {part.box}")
    digests = [digest.text(total, kinds[0], right.layout.shape) for total in totals]
    return Verdict(not found, (*_since_written(two, digests[1]), *found), *digests)


def _since_written(store: Store, now: str) -> list[str]:
    """What the digest stored with an array says against its elements."""
    stored = store.schema.record.digest
    if stored is None or stored == now or stored.split("-")[0] != digest.VERSION:
        return []
    return [f"{store.location} is not what was written: the digest stored with it is {stored}, its elements have {now}"]


def info(source: Where | Array, *, format: str | None = None, allow_external: Sequence[Where] = ()) -> dict[str, Any]:
    """Layout and metadata of a stored array, as `reblock info --json` prints them."""
    store = open(source, format=format, allow_external=allow_external).store
    schema = store.schema
    fill = schema.fill_value
    return {
        "format": store.format,
        "shape": list(schema.shape),
        "dtype": schema.dtype.str,
        "chunks": [list(cut) if isinstance(cut, tuple) else cut for cut in schema.chunks],
        "shards": list(schema.shards) if schema.shards else None,
        "order": list(schema.order),
        "codec": str(schema.codec),
        "fill_value": to_json({"fill": fill})[0].get("fill", str(fill)),
        "axes": list(schema.axes) if schema.axes else None,
        "digest": schema.record.digest,
        "attributes": to_json(schema.attributes)[0],
    }
