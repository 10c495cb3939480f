"""Decoders in numcodecs' compiled modules, by address: what a chain of one codec can be decoded with in C.

numcodecs builds Blosc and zstd into modules of its own, which export the libraries' functions. Where one does not,
there is no such decoder, and chunks are decoded through numcodecs' Python functions like those of other codecs.
"""

from __future__ import annotations

from functools import cache

from reblock.model.codec import Codec
from reblock.model.store import Decoder
from reblock.storage.codecs.compiled import address

#: By codec: numcodecs' module, the function that decodes, and the one that tells the size.
_FUNCTIONS = {
    "blosc": ("numcodecs.blosc", "blosc_decompress_ctx", ""),
    "zstd": ("numcodecs.zstd", "ZSTD_decompress", "ZSTD_getFrameContentSize"),
}


def decoder(codec: Codec) -> Decoder | None:
    """What decodes a unit in C; None where that takes more than one step, or is not to be had."""
    return _find(codec.stages[0].name) if len(codec.stages) == 1 else None


@cache
def _find(name: str) -> Decoder | None:
    if name not in _FUNCTIONS:
        return None
    module, *functions = _FUNCTIONS[name]
    try:
        return Decoder(name, *(address(module, function) if function else 0 for function in functions))
    except (AttributeError, OSError, TypeError):
        return None
