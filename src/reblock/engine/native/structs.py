"""The structures that the compiled loop takes, with the fields of `moves.h`, `decoder.h` and `looking.c`."""

from __future__ import annotations

from ctypes import Structure, c_int64, c_uint64, c_void_p

#: Columns of a row before those of its axes: file, path, first byte, size, whether exactly that, whether whole, and the
#: number of its object.
HEAD = 7
#: The step in which a call failed, in the order of `moves.h`.
PROBLEMS = (
    "",
    "opening",
    "missing",
    "reading",
    "wrong size",
    "short",
    "changed",
    "writing",
    "creating the folder of",
    "closing",
    "refused",
)


class PassStruct(Structure):
    """Everything that stays the same during a pass."""

    _fields_ = (
        ("ndim", c_int64),
        ("itemsize", c_int64),
        ("component", c_int64),
        ("digest", c_int64),
        ("direct", c_int64),
        ("fills", c_int64),
        ("flags", c_int64),
        ("share", c_int64),
        ("exact", c_int64),
        ("stamp_count", c_int64),
        ("stamps", c_void_p),
        ("shape", c_void_p),
        ("target_order", c_void_p),
        ("source_order", c_void_p),
        ("fill", c_void_p),
    )


class WindowStruct(Structure):
    """The write boxes that a read box meets."""

    _fields_ = (("counts", c_void_p), ("cuts", c_void_p), ("lengths", c_void_p), ("table", c_void_p))


class BatchStruct(Structure):
    """The rows of one call, and the memory that it may use."""

    _fields_ = (
        *(("count", c_int64), ("rows", c_void_p), ("path_bytes", c_int64), ("paths", c_void_p)),
        *(("staging_bytes", c_int64), ("staging", c_void_p), ("completed_count", c_int64), ("completed", c_void_p)),
    )


class ResultStruct(Structure):
    """The result of a call: where it stopped and why, and what it did until then."""

    _fields_ = tuple(
        (name, c_int64)
        for name in (
            *("row", "problem", "error", "offset", "length", "found"),
            *("opens", "runs", "seeks", "bytes", "elements", "missing", "completed"),
            *("io_ns", "decode_ns", "scatter_ns"),
        )
    )


class LookStruct(Structure):
    """The states of many files: see `source_state.py`."""

    _fields_ = (
        *(("firm", c_uint64), ("full", c_uint64), ("present", c_int64), ("newest", c_int64)),
        *(("fresh", c_int64), ("share", c_int64), ("exact", c_int64), ("stamp_count", c_int64), ("stamps", c_void_p)),
        *(("since", c_int64), ("suspects", c_int64), ("list_count", c_int64), ("list", c_void_p)),
    )


class DecoderStruct(Structure):
    """How units are decoded: the functions of a codec's adapter, and the context that they get."""

    _fields_ = (
        *(("decode", c_void_p), ("find", c_void_p)),
        *(("table_bytes", c_int64), ("lead_bytes", c_int64), ("planes", c_int64), ("context", c_void_p)),
    )
