"""Memory for encoding and decoding, from the registrations; the planner counts it beside elements.

At most two results of stages exist at a time beside the unit ::

    decoding    stored ─ gzip ─→ planes ─ shuffle ─→ elements              a copy between
    encoding    elements ─ shuffle ─→ planes ─ gzip ─→ where elements were   the same
    a shard     elements ─→ a row of units ─ unit after unit ─→ where elements were   the row, and a unit
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.model.codec import Codec, Stage
from reblock.model.layout import Coding, most_stored_bytes, room_bytes
from reblock.storage.codecs.registration import Role
from reblock.storage.codecs.registry import CODECS, has_role, is_checksum

#: From this size on, units are encoded in their own memory, if that is possible.
LARGE_BYTES = 16 << 20
#: The same for shards whose units are so large that headers hardly count.
_LARGE_UNIT_BYTES = 16 << 10
#: Smaller tables are not counted.
_LITTLE_BYTES = 1 << 20


def coding(codec: Codec, dtype: np.dtype[Any], unit_bytes: int) -> Coding | None:
    """Memory for the units of an array; None if they are not encoded."""
    if not codec:
        return None
    decoding, scratch = _decoding_bytes(codec, dtype, unit_bytes), _in_place_bytes(codec, unit_bytes)
    if scratch is None:
        return Coding(decoding, _encoding_bytes(codec, dtype, unit_bytes))
    return Coding(decoding, scratch + _state_bytes(codec, unit_bytes, in_place=True), in_place=True)


def shard_coding(codec: Codec, unit: Coding, unit_bytes: int, shard_bytes: int, rows: int) -> Coding:
    """Memory for shards that hold `rows` rows of units."""
    if shard_bytes < LARGE_BYTES or unit_bytes < _LARGE_UNIT_BYTES or _compressor(codec) is None:
        return shard_beside_coding(unit, unit_bytes, shard_bytes)
    one = (room_bytes(unit_bytes) if unit.in_place else unit_bytes) + unit.encoding_bytes
    waiting = room_bytes(shard_bytes) - shard_bytes
    return Coding(unit.decoding_bytes, shard_bytes // rows + waiting + one, in_place=True)


def shard_beside_coding(unit: Coding, unit_bytes: int, shard_bytes: int) -> Coding:
    """Memory for shards that are built beside their elements."""
    one = (room_bytes(unit_bytes) if unit.in_place else unit_bytes) + unit.encoding_bytes
    return Coding(unit.decoding_bytes, most_stored_bytes(shard_bytes) + one)


def is_in_place(codec: Codec, unit_bytes: int) -> bool:
    """Whether units are encoded in their own memory: in steps, or copied or regrouped and compressed back."""
    return _in_place_bytes(codec, unit_bytes) is not None


def _in_place_bytes(codec: Codec, unit_bytes: int) -> int | None:
    compressor = _compressor(codec)
    if unit_bytes < LARGE_BYTES or compressor is None:
        return None
    return CODECS[compressor.name].in_place(compressor, unit_bytes, first=compressor is codec.stages[0])


def _compressor(codec: Codec) -> Stage | None:
    """The compressor of the elements, regrouped or not, if it hardly enlarges incompressible data."""
    stages = list(codec.stages)
    while stages and is_checksum(stages[-1]) and stages[-1].get("location", "end") == "end":
        stages.pop()
    if stages and has_role(stages[0], Role.REORDER):
        stages.pop(0)
    if len(stages) != 1 or not has_role(stages[0], Role.COMPRESSOR) or CODECS[stages[0].name].copies:
        return None
    return stages[0]


def _decoding_bytes(codec: Codec, dtype: np.dtype[Any], unit_bytes: int) -> int:
    """Results between stages, and the stages' own memory."""
    stages = [stage for stage in codec.stages if not is_checksum(stage)]
    if not stages:
        return 0
    indirect = (Role.CHECKSUM, Role.FILTER, Role.TEXT)
    direct = not any(has_role(codec.stages[0], role) for role in indirect)
    copies = min(len(stages) - direct, 2) * unit_bytes
    known = [(CODECS[stage.name], stage) for stage in stages if stage.name in CODECS]
    # The format's library applies codecs without a registration, and decodes into memory of its own.
    work = unit_bytes if len(known) < len(stages) else 0
    work = max([work, *(one.decoding_work(stage, dtype, unit_bytes) for one, stage in known)])
    return copies + work + sum(one.decoding_state(stage, dtype, unit_bytes) for one, stage in known)


def _encoding_bytes(codec: Codec, dtype: np.dtype[Any], unit_bytes: int) -> int:
    """The result, its input, and the stages' own memory."""
    stored = most_stored_bytes(unit_bytes)
    taken = stored + _state_bytes(codec, unit_bytes)
    if len(codec.stages) > 1:
        taken += unit_bytes
    known = [(CODECS[stage.name], stage) for stage in codec.stages if stage.name in CODECS]
    if len(known) < len(codec.stages) or any(one.copies for one, _ in known):
        taken += stored
    return taken + max((one.encoding_work(stage, dtype, unit_bytes) for one, stage in known), default=0)


def _state_bytes(codec: Codec, unit_bytes: int, *, in_place: bool = False) -> int:
    """Tables and windows of compressors; those for little data are small, and not counted."""
    known = (stage for stage in codec.stages if stage.name in CODECS)
    total = sum(CODECS[stage.name].encoding_state(stage, unit_bytes, in_place=in_place) for stage in known)
    return total if total >= _LITTLE_BYTES else 0
