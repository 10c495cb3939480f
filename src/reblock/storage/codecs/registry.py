"""All codecs that have a registration, by name."""

from __future__ import annotations

from reblock.model.codec import Codec, Stage
from reblock.model.store import Decoder
from reblock.storage.codecs import blosc, by_imagecodecs, checksums, filters, plain, predictor, shuffle, streams, zstd
from reblock.storage.codecs.registration import Divider, RegisteredCodec, Role

#: By name.
CODECS: dict[str, RegisteredCodec] = {
    one.name: one
    for one in (
        *(blosc.CODEC, zstd.CODEC, streams.GZIP, streams.ZLIB, streams.BZ2, streams.LZMA),
        *(plain.LZ4, plain.BASE64, shuffle.CODEC, *checksums.CODECS, *filters.CODECS),
        *(predictor.CODEC, by_imagecodecs.LZW, by_imagecodecs.RLE),
    )
}


def find(name: str) -> RegisteredCodec:
    """The codec with a name; ValueError if there is none."""
    found = CODECS.get(name)
    if found is None:
        raise ValueError(f"codec {name!r} is not supported")
    return found


def check(stage: Stage) -> None:
    """Raise ValueError for a stage that numcodecs lacks, or with invalid settings."""
    found = find(stage.name)
    if not found.in_numcodecs:
        raise ValueError(f"codec {stage.name!r} is one of TIFF")
    found.check(stage)


def has_role(stage: Stage, role: Role) -> bool:
    """Whether a stage is a codec of a kind; codecs that a format's own library applies have no kind."""
    return stage.name in CODECS and CODECS[stage.name].role is role


def is_filter(stage: Stage) -> bool:
    """Whether a stage works on elements."""
    return has_role(stage, Role.FILTER)


def is_checksum(stage: Stage) -> bool:
    """Whether a stage adds a checksum."""
    return has_role(stage, Role.CHECKSUM)


def decoder(codec: Codec) -> Decoder | None:
    """The decoder of units in C; None if that takes more than one step, or if a function is missing."""
    return find(codec.stages[0].name).decoder() if len(codec.stages) == 1 else None


def divider(codec: Codec) -> Divider | None:
    """How chunks may be divided into parts that are decoded separately; None if they cannot be."""
    return find(codec.stages[0].name).divide if len(codec.stages) == 1 else None
