"""Digests of tables and of whole datasets; `docs/reference/digest.md` has the formula.

The elements of a table have no fixed size, so its digest is a hash of them in C order, not a sum. That of a dataset is
a hash of the names and digests of its arrays and tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: Beginnings of the digests of tables and of datasets.
TABLE, DATASET = "rbt1", "rbd1"


class TableDigest:
    """Takes the rows of a table in order, in blocks of any size."""

    def __init__(self, kind: str, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
        """`kind` is the table's own word for its elements."""
        self._packed = _packed(dtype)
        name = kind if dtype.hasobject and dtype.fields is None else type_text(dtype)
        self._hash = hashlib.blake2b(f"{TABLE} {name} {','.join(map(str, shape))}\n".encode(), digest_size=16)

    def update(self, rows: npt.NDArray[Any]) -> None:
        """Take more rows."""
        if self._packed is None:
            for element in np.asarray(rows).reshape(-1):
                self._hash.update(_bytes_of(element))
        else:
            self._hash.update(np.ascontiguousarray(rows).astype(self._packed, copy=False).tobytes())

    def text(self) -> str:
        """The digest of all rows so far."""
        return f"{TABLE}-{self._hash.hexdigest()}"


def dataset_digest(digests: Mapping[str, str | None]) -> str | None:
    """The digest of a dataset, from those of its arrays and tables by name; None if one of them has none."""
    whole = hashlib.blake2b(f"{DATASET}\n".encode(), digest_size=16)
    for name in sorted(digests, key=lambda one: one.encode("utf-8", "surrogateescape")):
        digest = digests[name]
        if digest is None:
            return None
        whole.update(_with_length(name.encode("utf-8", "surrogateescape")) + digest.encode())
    return f"{DATASET}-{whole.hexdigest()}"


def type_text(dtype: np.dtype[Any]) -> str:
    """A type without byte order and padding, such as `{time:i8,position:(3,)f4,name:object}`."""
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        return f"({','.join(map(str, shape))},){type_text(inner)}"
    if dtype.fields is not None:
        return "{" + ",".join(f"{name}:{type_text(dtype.fields[name][0])}" for name in dtype.names or ()) + "}"
    return "object" if dtype.hasobject else dtype.str[1:]


def _packed(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type with little-endian numbers and without padding; None if elements have no fixed size."""
    if dtype.hasobject:
        return None
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        return np.dtype((_packed(inner), shape))
    if dtype.fields is not None:
        return np.dtype([(name, _packed(dtype.fields[name][0])) for name in dtype.names or ()])
    return dtype.newbyteorder("<")


def _bytes_of(element: Any) -> bytes:
    """One element: text and bytes behind their length, fields one after the other."""
    if isinstance(element, np.void) and element.dtype.names is not None:
        return b"".join(_bytes_of(element[name]) for name in element.dtype.names)
    if isinstance(element, str):
        return _with_length(element.encode("utf-8", "surrogateescape"))
    if isinstance(element, bytes | bytearray | memoryview):
        return _with_length(bytes(element))
    if element is None:
        return _with_length(b"")
    array = np.asarray(element)
    if array.dtype.hasobject:
        parts = [_bytes_of(one) for one in array.reshape(-1)]
        return len(parts).to_bytes(8, "little") + b"".join(parts)
    packed = _packed(array.dtype)
    data = array.tobytes() if packed is None else array.astype(packed, copy=False).tobytes()
    # A scalar field has a fixed size; a list of numbers of any length does not.
    return _with_length(data) if isinstance(element, np.ndarray) else data


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data
