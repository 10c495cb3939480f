"""Every dataset of a foreign file through reblock, judged by the library of its format.

This is a program: it prints one line of JSON when it begins a dataset and one when it has judged it, so that the caller
knows what was at work when the process died. A dataset that takes too long ends it by SIGALRM.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import h5py
import numpy as np
import zarr

import reblock
from reblock.errors import ReblockError
from reblock.testing.compare import same_value
from sweeps.libraries import Array, bits

#: Seconds that a dataset may take.
LONGEST = 120
#: Larger datasets are left out.
MOST_BYTES = 512 << 20
#: What every dataset is made into.
TARGETS = ("out.zarr", "out.h5", "out.npy")


def judge(path: str, name: str, folder: str) -> Iterator[dict[str, Any]]:
    """What comes of one dataset, for each target."""
    try:
        wanted, attributes = library_reads(path, name)
    except Exception as error:  # noqa: BLE001 - whatever the library says
        wanted, attributes = str(error), {}
    if isinstance(wanted, np.ndarray) and wanted.nbytes > MOST_BYTES:
        yield {"result": "large", "why": f"{wanted.nbytes} bytes"}
        return
    for target in TARGETS:
        where = os.path.join(folder, target)
        source = f"{path}::{name}" if name else path
        try:
            report = reblock.repartition(source, where, memory="256MiB")
        except ReblockError as error:
            yield {"target": target, "result": "refused", "why": str(error)}
            continue
        except Exception as error:  # noqa: BLE001 - a bug, to be listed
            yield {"target": target, "result": "traceback", "why": f"{type(error).__name__}: {error}"}
            continue
        if isinstance(wanted, str):
            yield {"target": target, "result": "unread", "why": f"the library cannot read it: {wanted}"}
        else:
            yield {"target": target, **compare(where, wanted, attributes, report.notes)}
        shutil.rmtree(where) if os.path.isdir(where) else os.remove(where)


def library_reads(path: str, name: str) -> tuple[Array | str, dict[str, Any]]:
    """Elements and attributes as the library gives them."""
    if os.path.isdir(path):
        found = zarr.open_array(path, mode="r")
        kept = dict(found.attrs)
        if names := getattr(found.metadata, "dimension_names", None):
            kept["DIMENSION_LABELS"] = [name or "" for name in names]  # what HDF5 calls the same
        return np.asarray(found[...]), kept
    with h5py.File(path) as file:
        found = file[name]
        attributes: dict[str, Any] = {}
        for key in found.attrs:
            try:
                attributes[key] = found.attrs[key]
            except (OSError, TypeError, ValueError) as error:
                attributes[key] = error
        if found.shape is None:
            return "it has no elements", attributes
        return np.asarray(found[()]), attributes


def compare(where: str, wanted: Array, attributes: Mapping[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """What is wrong with a result."""
    if where.endswith(".npy"):
        found, kept = np.load(where), None
    else:
        found, kept = library_reads(where, "" if where.endswith(".zarr") else "data")
    wrong = _wrong_elements(found, wanted, notes)
    if wrong:
        return {"result": "wrong", "why": wrong}
    changed = [] if kept is None else _changed(attributes, kept, notes, exactly=where.endswith(".h5"))
    return {"result": "attributes", "why": "; ".join(changed)} if changed else {"result": "equal", "why": ""}


def _wrong_elements(found: Array | str, wanted: Array, notes: Sequence[str]) -> str:
    """How elements differ: bit by bit, or by value where a note names the conversion."""
    if isinstance(found, str) or found.shape != wanted.shape:
        return f"{found if isinstance(found, str) else found.shape} for {wanted.shape}"
    if found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("="):
        return "" if bits(found) == bits(wanted) else f"{int((found != wanted).sum())} of {wanted.size} elements differ"
    if not any("type" in note or str(wanted.dtype) in note for note in notes):
        return f"type {found.dtype} for {wanted.dtype}"
    if wanted.dtype.kind in "mM":  # as CF has them: so many units since the epoch
        return _wrong_elements(found, wanted.view(f"{wanted.dtype.str[0]}i8"), notes)
    return "" if same_value(plain(found), plain(wanted)) else f"values of {wanted.dtype} as {found.dtype} differ"


def _changed(before: Mapping[str, Any], after: Mapping[str, Any], notes: Sequence[str], *, exactly: bool) -> list[str]:
    """Attributes that are not what they were, and that no note names."""
    return [
        f"{name}: {shown(value)} became {shown(after[name]) if name in after else 'nothing'}"
        for name, value in before.items()
        if not (name in after and same_attribute(value, after[name], exactly=exactly))
        and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", note) for note in notes)
    ]


def same_attribute(one: Any, other: Any, *, exactly: bool) -> bool:
    """Whether an attribute is what it was: in JSON by value, in HDF5 with its type and shape."""
    if isinstance(one, Exception):
        return False
    if exactly and (np.shape(one), np.asarray(one).dtype.kind) != (np.shape(other), np.asarray(other).dtype.kind):
        return False
    one, other = plain(one), plain(other)
    # NetCDF has attributes of one element where others have the element.
    one, other = (value[0] if isinstance(value, list) and len(value) == 1 else value for value in (one, other))
    return type(one) is type(other) and same_value(one, other)


def plain(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value


def shown(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 80 else f"{text[:76]} …"


def main() -> None:
    """Judge the datasets that are named on standard input."""
    warnings.simplefilter("ignore")
    with suppress(ImportError):
        import hdf5plugin  # noqa: F401 - gives h5py the filters that reblock reads with it
    for number, (path, name) in enumerate(json.load(sys.stdin)):
        print(json.dumps({"begin": number}), flush=True)
        signal.alarm(LONGEST)
        folder = tempfile.mkdtemp()
        try:
            for result in judge(path, name, folder):
                print(json.dumps({"path": path, "dataset": name, **result}), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
