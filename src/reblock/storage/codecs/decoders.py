"""Decoders in C: the adapters of codecs that have one, and the addresses of the functions that they call.

numcodecs builds Blosc and zstd into modules of its own, which export the libraries' functions. Where one does not,
there is no such decoder, and chunks are decoded through numcodecs' Python functions like those of other codecs.
"""

from __future__ import annotations

from functools import cache

from reblock.model.codec import Codec
from reblock.model.store import Decoder
from reblock.storage.codecs.compiled import address

#: By codec: numcodecs' module, and the functions whose addresses the adapter wants.
_FUNCTIONS = {
    "blosc": ("numcodecs.blosc", "blosc_decompress_ctx"),
    "zstd": ("numcodecs.zstd", "ZSTD_decompress", "ZSTD_getFrameContentSize"),
}


def decoder(codec: Codec) -> Decoder | None:
    """The decoder of units in C; None where that takes more than one step, or a function is missing."""
    return _find(codec.stages[0].name) if len(codec.stages) == 1 else None


@cache
def _find(name: str) -> Decoder | None:
    if name not in _FUNCTIONS:
        return None
    module, *functions = _FUNCTIONS[name]
    try:
        return Decoder(name, tuple(address(module, function) for function in functions))
    except (AttributeError, ImportError, OSError, TypeError):
        return None
