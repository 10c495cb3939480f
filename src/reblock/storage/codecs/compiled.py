"""Functions of compiled libraries in other packages, called on our own memory.

numcodecs builds Blosc and zstd into its modules, and deflate builds in libdeflate. Their Python functions allocate what
they return. The libraries' own functions, which the modules export, do not, and ctypes releases the interpreter's lock
while they run. They are called only where the Python functions take more time or memory (decision 0039): to encode a
large unit in its own memory, to decode zlib streams, and to decode inside the compiled loop. If a module exports
nothing, callers use the Python functions.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

from reblock.model.store import Flat


class StreamBuffer(ctypes.Structure):
    """Input or output of a zstd stream: memory, and how much of it is used."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t), ("used", ctypes.c_size_t))


_SIZE, _POINTER, _INT, _TEXT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_MEMORY = (_POINTER, _SIZE)
_SIZES = ctypes.POINTER(_SIZE)
#: The functions of each module, with the types of result and arguments.
_FUNCTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "deflate._deflate": {
        "libdeflate_alloc_compressor": (_POINTER, _INT),
        "libdeflate_free_compressor": (None, _POINTER),
        "libdeflate_deflate_compress": (_SIZE, _POINTER, *_MEMORY, *_MEMORY),
        "libdeflate_zlib_compress": (_SIZE, _POINTER, *_MEMORY, *_MEMORY),
        "libdeflate_gzip_compress": (_SIZE, _POINTER, *_MEMORY, *_MEMORY),
        "libdeflate_alloc_decompressor": (_POINTER,),
        "libdeflate_free_decompressor": (None, _POINTER),
        "libdeflate_zlib_decompress_ex": (_INT, _POINTER, *_MEMORY, *_MEMORY, _SIZES, _SIZES),
        "libdeflate_gzip_decompress_ex": (_INT, _POINTER, *_MEMORY, *_MEMORY, _SIZES, _SIZES),
    },
    "numcodecs.zstd": {
        "ZSTD_createCCtx": (_POINTER,),
        "ZSTD_freeCCtx": (_SIZE, _POINTER),
        "ZSTD_CCtx_setParameter": (_SIZE, _POINTER, _INT, _INT),
        "ZSTD_CCtx_setPledgedSrcSize": (_SIZE, _POINTER, ctypes.c_ulonglong),
        "ZSTD_compress2": (_SIZE, _POINTER, *_MEMORY, *_MEMORY),
        "ZSTD_compressStream2": (_SIZE, _POINTER, ctypes.POINTER(StreamBuffer), ctypes.POINTER(StreamBuffer), _INT),
        "ZSTD_estimateCCtxSize": (_SIZE, _INT),
        "ZSTD_estimateCStreamSize": (_SIZE, _INT),
        "ZSTD_isError": (ctypes.c_uint, _SIZE),
    },
    "numcodecs.blosc": {
        # level, shuffle, type size, source bytes, source, target, target bytes, compressor, block size, threads
        "blosc_compress_ctx": (_INT, _INT, _INT, _SIZE, _SIZE, _POINTER, *_MEMORY, _TEXT, _SIZE, _INT),
    },
}


@cache
def library(module: str) -> Any:
    """The functions listed for a module; None if it is not installed, or does not export them all."""
    try:
        found = ctypes.CDLL(import_module(module).__file__)
        for name, (result, *arguments) in _FUNCTIONS[module].items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except (AttributeError, ImportError, OSError, TypeError):
        return None
    return found


def address(module: str, function: str) -> int | None:
    """Address of a function; None if the module is not installed, or does not export it."""
    try:
        found = getattr(ctypes.CDLL(import_module(module).__file__), function)
    except (AttributeError, ImportError, OSError, TypeError):
        return None
    return ctypes.cast(found, ctypes.c_void_p).value


def memory(data: Flat) -> tuple[int, int]:
    """Address and size, the form that most functions take."""
    return data.ctypes.data, data.size
