"""All codecs that have a registration, by name."""

from __future__ import annotations

from reblock.model.codec import Codec, Stage
from reblock.model.store import Decoder
from reblock.storage.codecs import blosc, checksums, filters, plain, shuffle, streams, zstd
from reblock.storage.codecs.registration import Divider, RegisteredCodec, Role

#: By name.
CODECS: dict[str, RegisteredCodec] = {
    one.name: one
    for one in (
        *(blosc.CODEC, zstd.CODEC, streams.GZIP, streams.ZLIB, streams.BZ2, streams.LZMA),
        *(plain.LZ4, plain.BASE64, shuffle.CODEC, *checksums.CODECS, *filters.CODECS),
    )
}


def find(name: str) -> RegisteredCodec:
    """The codec of a name; ValueError where there is none."""
    found = CODECS.get(name)
    if found is None:
        raise ValueError(f"codec {name!r} is not supported")
    return found


def check(stage: Stage) -> None:
    """ValueError for a stage that has no registration, or has settings that make no sense."""
    find(stage.name).check(stage)


def has_role(stage: Stage, role: Role) -> bool:
    """Whether a stage is a codec of a kind; those that a format's own library applies are of none."""
    return stage.name in CODECS and CODECS[stage.name].role is role


def is_filter(stage: Stage) -> bool:
    """Whether a stage works on elements."""
    return has_role(stage, Role.FILTER)


def is_checksum(stage: Stage) -> bool:
    """Whether a stage adds a checksum."""
    return has_role(stage, Role.CHECKSUM)


def decoder(codec: Codec) -> Decoder | None:
    """The decoder of units in C; None where that takes more than one step, or a function is missing."""
    return find(codec.stages[0].name).decoder() if len(codec.stages) == 1 else None


def divider(codec: Codec) -> Divider | None:
    """How chunks may be divided into parts that are decoded one by one; None where they cannot be."""
    return find(codec.stages[0].name).divide if len(codec.stages) == 1 else None
