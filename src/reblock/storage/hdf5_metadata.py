"""What an HDF5 dataset says of itself, read as a schema; and attributes written back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.errors import CorruptError, ExternalError, FormatError
from reblock.model.schema import Schema
from reblock.storage import checks
from reblock.storage.hdf5_file import FAILURES, library
from reblock.storage.hdf5_filters import Pipeline, codec_of, is_ours, read_pipeline
from reblock.storage.hdf5_index import address_shift, edges_are_raw

#: Kinds of elements that HDF5 and h5py hold as plain bytes.
KINDS = checks.NUMBERS + "SV"
#: Largest attribute that is read.
_MANY_BYTES = 64 << 20


@dataclass(frozen=True)
class Stored:
    """How a dataset's bytes lie in its file."""

    chunked: bool
    """Whether there is a chunk index; else the dataset is one run of bytes, or inside the metadata."""
    offset: int | None
    """First byte of a dataset that is one run; None = nothing allocated."""
    pipeline: Pipeline
    """Filters of a chunk."""
    direct: bool
    """Whether the stored bytes can be read without HDF5."""
    raw_edges: bool = False
    """Whether chunks that stick out of the array skip all filters."""
    shift: int = 0
    """What to add to the addresses of chunks."""


def describe(dataset: Any, where: str, size: int) -> tuple[Schema, Stored]:
    """A dataset's schema and storage; `size` is the file's, in bytes."""
    h5py = library()
    dcpl = dataset.id.get_create_plist()
    _refuse_foreign(dataset, dcpl, where)
    dtype, exact, notes = _element(dataset, where)
    if dataset.shape is None:
        raise FormatError(f"{where} is a null dataset: it has no elements and no shape")
    shape = checks.check_shape(dataset.shape, where=where, itemsize=dtype.itemsize)
    kind = dcpl.get_layout()
    if kind not in (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED):
        raise FormatError(f"{where} has storage layout {kind}; compact, contiguous and chunked are known")
    chunked = kind == h5py.h5d.CHUNKED
    chunks = dataset.chunks if chunked else tuple(max(n, 1) for n in shape)
    chunks = checks.check_chunks(chunks, shape, dtype.itemsize, where=where)
    pipeline = read_pipeline(dcpl, dtype.itemsize, where) if chunked else ()
    offset = dataset.id.get_offset() if kind == h5py.h5d.CONTIGUOUS else None
    if offset is not None and offset + (need := int(np.prod(shape, dtype=object)) * dtype.itemsize) > size:
        raise CorruptError(f"{where}: {need} bytes at {offset} end after the file, which has {size}")
    attributes, axes, more = _read_attributes(dataset)
    schema = Schema(
        shape,
        dtype,
        chunks,
        codec=codec_of(pipeline),
        fill_value=_fill(dataset, dcpl, dtype),
        attributes=attributes,
        axes=axes,
        notes=(*notes, *more),
    )
    return schema, Stored(
        chunked=chunked,
        offset=offset,
        pipeline=pipeline,
        direct=exact and kind != h5py.h5d.COMPACT and is_ours(pipeline),
        raw_edges=bool(pipeline) and edges_are_raw(dcpl),
        shift=address_shift(dataset.file),
    )


def _refuse_foreign(dataset: Any, dcpl: Any, where: str) -> None:
    """No bytes of other files: whoever made this file could name any."""
    if dcpl.get_external_count():
        name = dcpl.get_external(0)[0].decode("utf-8", "replace")
        raise ExternalError(f"{where} keeps its elements in another file, {name}; copy it with h5repack first")
    if dataset.is_virtual:
        sources = dataset.virtual_sources()
        name = f", such as {sources[0].file_name}::{sources[0].dset_name}" if sources else ""
        raise ExternalError(f"{where} is a virtual dataset made of others{name}; repartition those, or copy it first")


def _element(dataset: Any, where: str) -> tuple[np.dtype[Any], bool, list[str]]:
    """The type of an element, whether its bytes are numpy's, and notes."""
    h5py = library()
    try:
        found = dataset.dtype
    except TypeError as error:
        raise FormatError(f"{where}: {error}") from None
    if problem := checks.dtype_problem(found, KINDS):
        raise FormatError(f"{where}: {problem}")
    dtype = np.dtype(found.str)
    stored = dataset.id.get_type()
    notes = []
    if stored.get_class() == h5py.h5t.ENUM and dtype.kind != "b":
        stored = stored.get_super()
        notes.append(f"the names of the enumeration are not kept, its values are, as {dtype}")
    exact = bool(stored == h5py.h5t.py_create(dtype, logical=True))
    if not exact and stored.get_size() != dtype.itemsize:
        notes.append(f"elements of {stored.get_size()} bytes in a type that numpy has not are read as {dtype}")
    return dtype, exact, notes


def _fill(dataset: Any, dcpl: Any, dtype: np.dtype[Any]) -> Any:
    """The fill value as a numpy scalar; zero where the file leaves it open."""
    fill = np.zeros((), dtype)
    if dcpl.fill_value_defined() == library().h5d.FILL_VALUE_USER_DEFINED:
        fill[...] = dataset.fillvalue
    return fill[()]


# -------------------------------------------------------------------- attributes
def _read_attributes(dataset: Any) -> tuple[dict[str, Any], tuple[str, ...] | None, list[str]]:
    """Attributes, names of the axes, and notes on what is left out."""
    kept: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name in dataset.attrs:
        try:
            problem, value = _read_attribute(dataset, name)
        except FAILURES as error:
            problem, value = f"it cannot be read ({' '.join(str(error).split())})", None
        if problem:
            problems[name] = problem
        else:
            kept[name] = value
    is_scale = kept.get("CLASS") in ("DIMENSION_SCALE", b"DIMENSION_SCALE")
    for name in ("DIMENSION_LIST", "REFERENCE_LIST", *(("CLASS", "NAME") if is_scale else ())):
        if name in kept or name in problems:
            kept.pop(name, None)
            problems[name] = "it ties dimension scales of the same file together"
    # The library's own call for labels crashes on hostile ones.
    labels = kept.pop("DIMENSION_LABELS", None)
    axes = tuple(map(str, labels)) if isinstance(labels, list) and len(labels) == len(dataset.shape) else ()
    if labels is not None and not (axes and all(axes)):
        problems["DIMENSION_LABELS"] = "not every axis has a name"
    notes = [f"attribute {name!r} is not kept: {problem}" for name, problem in problems.items()]
    return kept, axes if axes and all(axes) else None, notes


def _read_attribute(dataset: Any, name: str) -> tuple[str, Any]:
    """A problem in words, or a value that other formats can be given."""
    h5py = library()
    identifier = h5py.h5a.open(dataset.id, name.encode("utf-8", "surrogateescape"))
    space = identifier.get_space()
    if space.get_simple_extent_type() == h5py.h5s.NULL:
        return "it is empty, without a value", None
    size = space.get_simple_extent_npoints() * identifier.get_type().get_size()
    if size > _MANY_BYTES:
        return f"it has {size:,} bytes, the limit is {_MANY_BYTES:,}", None
    dtype = identifier.dtype
    if dtype.hasobject and h5py.check_string_dtype(dtype) is None:
        return "it holds references or sequences of varying length", None
    if dtype.fields is not None or dtype.subdtype is not None:
        return "it is of a compound type", None
    value = dataset.attrs[name]
    if isinstance(value, np.ndarray) and dtype.hasobject:
        value = value.tolist()
    return "", value


def write_attributes(dataset: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes that `adapt` has accepted."""
    h5py = library()
    for name, value in attributes.items():
        plain = np.bytes_(value) if isinstance(value, bytes) else value
        if isinstance(plain, np.ndarray) and plain.dtype.kind == "U":
            plain = plain.astype(object)
        text = isinstance(plain, np.ndarray) and plain.dtype.kind == "O"
        dataset.attrs.create(name, plain, dtype=h5py.string_dtype() if text else None)
