"""The metadata of an HDF5 dataset: read as a schema, and attributes written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from reblock.errors import CorruptError, ExternalError, FormatError, StorageError
from reblock.model.roots import Roots
from reblock.model.schema import Record, Schema
from reblock.storage import checks
from reblock.storage.checks import parse_json
from reblock.storage.conventions import is_tie, tie_note
from reblock.storage.hdf5.axes import KnownMembers, axis_names
from reblock.storage.hdf5.file import FAILURES, library
from reblock.storage.hdf5.filters import Filter, Pipeline, codec_of, is_ours, missing_filters, read_pipeline
from reblock.storage.hdf5.index import address_shift, edges_are_raw, is_misreported
from reblock.storage.hdf5.plugins import missing_plugin
from reblock.storage.hdf5.sandbox.wire import pack, unpack
from reblock.storage.hdf5.virtual import Member, SourceMap, mappings_of, read_parts
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.records import record_to_json, take_record
from reblock.storage.roots import FileRoots

#: Kinds of elements that HDF5 and h5py hold as plain bytes.
KINDS = checks.NUMBERS + "SV"
#: The most bytes of attributes that are read.
_MANY_BYTES = 8 << 20
#: Why the positions that HDF5 reports for some chunks are not used.
_SWAPPED = "it reports wrong places for chunks in an extensible array whose unlimited axis is not the first"
#: The most external files of a dataset that are considered.
_MANY_FILES = 2


@dataclass(frozen=True)
class Stored:
    """How a dataset is stored in its file."""

    chunked: bool
    """Whether there is a chunk index; otherwise the dataset is one run of bytes, or inside the metadata."""
    offset: int | None
    """First byte of a dataset that is one run; None = nothing allocated."""
    pipeline: Pipeline
    """Filters of a chunk."""
    direct: bool
    """Whether the stored bytes can be read without HDF5."""
    raw_edges: bool = False
    """Whether chunks that extend beyond the array skip all filters."""
    shift: int = 0
    """Offset to add to the addresses of chunks."""
    file: str = ""
    """The external file that holds the elements; empty = the dataset's own file."""
    misplaced: str = ""
    """Why the chunk positions that HDF5 reports are not used; empty = they are."""
    parts: tuple[SourceMap, ...] | None = None
    """The mappings of a virtual dataset."""
    members: tuple[Member, ...] | None = None
    """The mappings with their sources, once these are found."""


def facts_of(dataset: Any, where: str, known: KnownMembers | None = None) -> dict[str, Any]:
    """Everything that we need to know about a dataset, as JSON from HDF5, not yet checked."""
    h5py = library()
    dcpl = dataset.id.get_create_plist()
    kind = dcpl.get_layout()
    virtual = mappings_of(dcpl, where) if kind == h5py.h5d.VIRTUAL else None
    facts: dict[str, Any] = {"external": [], "virtual": virtual}
    for number in range(min(dcpl.get_external_count(), _MANY_FILES)):
        name, offset, size = dcpl.get_external(number)
        facts["external"].append([os.fsdecode(name), offset, size])
    dtype, exact, notes = _element(dataset, where)
    if dataset.shape is None:
        raise FormatError(f"{where} is a null dataset: it has no elements and no shape")
    if kind not in (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED, h5py.h5d.VIRTUAL):
        raise FormatError(f"{where} has storage layout {kind}; supported are compact, contiguous, chunked and virtual")
    chunked = kind == h5py.h5d.CHUNKED
    pipeline = read_pipeline(dcpl, dtype.itemsize, where) if chunked else ()
    attributes, axes, more = read_metadata(dataset, known)
    return {
        **facts,
        "shape": dataset.shape,
        "unlimited": [limit is None for limit in dataset.maxshape],
        "dtype": dtype.str,
        "chunks": dataset.chunks if chunked else None,
        "pipeline": [asdict(one) for one in pipeline],
        "offset": dataset.id.get_offset() if kind == h5py.h5d.CONTIGUOUS and not facts["external"] else None,
        "exact": exact and kind not in (h5py.h5d.COMPACT, h5py.h5d.VIRTUAL),
        "raw_edges": bool(pipeline) and edges_are_raw(dcpl),
        "shift": address_shift(dataset.file),
        "misplaced": chunked and is_misreported(dataset),
        "fill": pack(read_fill(dataset, dcpl, dtype)),
        "attributes": {name: pack(value) for name, value in attributes.items()},
        "axes": axes,
        "netcdf": is_netcdf(dataset),
        "record": read_record(dataset),
        "notes": [*notes, *more],
    }


def describe_own(dataset: Any, path: str, name: str, size: int) -> tuple[Schema, Stored]:
    """Schema and storage of a dataset that we made and that is open in this process; `size` is the file's bytes."""
    where = f"{path}::{name}"
    return describe(facts_of(dataset, where), path, name, size, FileRoots.of(path))


def describe(facts: Mapping[str, Any], path: str, name: str, size: int, roots: Roots) -> tuple[Schema, Stored]:
    """A dataset's schema and storage from checked facts; `size` is the file's bytes."""
    where = f"{path}::{name}"
    schema = schema_of(facts, where)
    pipeline = _pipeline(facts)
    offset, file = facts["offset"], ""
    need = prod(schema.shape) * schema.dtype.itemsize
    if facts["external"]:
        file, offset, size = _external(facts["external"], path, where, roots)
    if offset is not None and need > size - checks.check_integer(offset, what="the offset", where=where):
        raise CorruptError(f"{where}: {need} bytes at {offset} end beyond the file, which has {size}")
    misplaced = _SWAPPED if facts["misplaced"] else ""
    direct = bool(facts["exact"]) and is_ours(pipeline) and not misplaced
    if not direct and (missing := missing_filters(pipeline)):
        raise missing_plugin(missing[0], where)
    return schema, Stored(
        chunked=facts["chunks"] is not None,
        offset=offset,
        pipeline=pipeline,
        direct=direct,
        raw_edges=bool(facts["raw_edges"]),
        shift=checks.check_integer(facts["shift"], what="the user block", where=where),
        file=file,
        misplaced=misplaced,
        parts=None if facts["virtual"] is None else read_parts(facts["virtual"], schema.shape, where),
    )


def schema_of(facts: Mapping[str, Any], where: str) -> Schema:
    """A dataset's schema from checked facts."""
    dtype = checks.check_dtype(facts["dtype"], where=where, kinds=KINDS)
    shape = checks.check_shape(facts["shape"], where=where, itemsize=dtype.itemsize)
    chunks = tuple(max(n, 1) for n in shape) if facts["chunks"] is None else facts["chunks"]
    axes = facts["axes"]
    attributes = {str(name): unpack(value) for name, value in facts["attributes"].items()}
    record, attributes = take_record(attributes, facts["record"])
    return Schema(
        shape,
        dtype,
        checks.check_chunks(chunks, shape, dtype.itemsize, where=where),
        codec=codec_of(_pipeline(facts)),
        fill_value=np.asarray(unpack(facts["fill"]), dtype)[()],
        attributes=attributes,
        axes=None if axes is None else tuple(map(str, axes)),
        netcdf=bool(facts["netcdf"]),
        hdf5=True,
        unlimited=_unlimited(facts["unlimited"], len(shape)),
        record=record,
        notes=tuple(map(str, facts["notes"])),
    )


def _unlimited(given: Sequence[Any], ndim: int) -> tuple[bool, ...]:
    found = tuple(map(bool, given))
    return found if any(found) and len(found) == ndim else ()


def _pipeline(facts: Mapping[str, Any]) -> Pipeline:
    return tuple(_filter(one) for one in facts["pipeline"])


def _filter(facts: Mapping[str, Any]) -> Filter:
    settings: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
    return Filter(**settings)


def _external(files: Sequence[Sequence[Any]], path: str, where: str, roots: Roots) -> tuple[str, int, int]:
    """The external file that holds a dataset's elements, their offset in it, and its size."""
    name, offset, _ = files[0]
    if len(files) > 1:
        raise ExternalError(f"{where} keeps its elements in several files, such as {name}: copy it with h5repack first")
    real = roots.resolve(beside(path, name))
    with disk_errors(f"{where} keeps its elements in", real):
        size = LOCAL.status(real).size
    return real, offset, size


def beside(path: str, name: str) -> str:
    """The path for a file name in an HDF5 file: absolute, or relative to the file's folder."""
    if "://" in path:
        return name  # a file in an object store leads to no other
    return os.path.join(os.path.dirname(os.path.realpath(path)), name)


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
        notes.append(f"the names of the enumeration are not kept; its values are, as {dtype}")
    if dtype.kind == "S" and stored.get_cset() == h5py.h5t.CSET_UTF8:
        notes.append("text of a fixed size is kept as bytes, without the mark that it is UTF-8")
    # The encoding of text does not change its bytes; only the type of the library says it.
    exact = bool(stored == h5py.h5t.py_create(found if dtype.kind == "S" else dtype, logical=True))
    if not exact and stored.get_size() != dtype.itemsize:
        notes.append(f"elements of {stored.get_size()} bytes in a type that numpy lacks are read as {dtype}")
    return dtype, exact, notes


def read_fill(dataset: Any, dcpl: Any, dtype: np.dtype[Any]) -> Any:
    """The fill value as a numpy scalar; zero if the file does not define it."""
    fill = np.zeros((), dtype)
    if dcpl.fill_value_defined() == library().h5d.FILL_VALUE_USER_DEFINED:
        fill[...] = dataset.fillvalue
    return fill[()]


def is_netcdf(dataset: Any) -> bool:
    """Whether the file has marks of the NetCDF library."""
    marks = [(dataset, "_Netcdf4Dimid"), (dataset, "_Netcdf4Coordinates"), (dataset.file, "_NCProperties")]
    return any(name in one.attrs for one, name in marks)


# -------------------------------------------------------------------- record
def read_record(dataset: Any) -> Any:
    """The comment of a dataset as JSON, if it is JSON: others write comments too."""
    try:
        # h5o.get_comment of h5py 3 returns uninitialised memory.
        text = dataset.file["/"].id.get_comment(dataset.name.encode("utf-8", "surrogateescape"))
        return parse_json(text, where="") if text.startswith(b"{") else None
    except (*FAILURES, FormatError):
        return None


def write_record(dataset: Any, record: Record) -> None:
    """Write a record as the dataset's comment, which h5dump shows but NetCDF's tools and xarray do not."""
    root, name = dataset.file["/"].id, dataset.name.encode("utf-8", "surrogateescape")
    text = json.dumps(record_to_json(record)).encode()
    root.set_comment(name, text)
    if root.get_comment(name) != text:
        raise StorageError(
            f"{dataset.file.filename}::{dataset.name}: HDF5 returns a different comment than was written"
        )


# -------------------------------------------------------------------- attributes
def read_metadata(
    dataset: Any, known: KnownMembers | None = None
) -> tuple[dict[str, Any], tuple[str, ...] | None, list[str]]:
    """Attributes, axis names, and notes on what is left out."""
    kept, problems, notes = read_attributes(dataset)
    # The library's own call for labels crashes on hostile ones.
    labels = kept.pop("DIMENSION_LABELS", None)
    axes = axis_names(dataset, labels, is_scale=kept.get("CLASS") == b"DIMENSION_SCALE", known=known)
    if labels is not None and not axes:
        problems["DIMENSION_LABELS"] = "not every axis has a name"
    for name in [name for name in problems if name != "DIMENSION_LABELS" and is_tie(name)]:
        # The same note as for attributes that could be read.
        notes.append(tie_note(name))
        del problems[name]
    notes += [f"attribute {name!r} is not kept: {problem}" for name, problem in problems.items()]
    return kept, axes or None, notes


def read_attributes(node: Any, *, exact_text: bool = False) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Attributes of a dataset or group, problems of others by name, and notes.

    With `exact_text`, text of a fixed length includes the NUL characters at its end.
    """
    kept: dict[str, Any] = {}
    problems: dict[str, str] = {}
    notes: list[str] = []
    left = _MANY_BYTES
    try:
        names = list(node.attrs)
    except FAILURES as error:
        return {}, {}, [f"attributes are not kept: they cannot be read ({' '.join(str(error).split())})"]
    for name in names:
        try:
            problem, value = _read_attribute(node, name, left, notes, exact_text=exact_text)
        except FAILURES as error:
            problem, value = f"it cannot be read ({' '.join(str(error).split())})", None
        if problem:
            problems[name] = problem
        else:
            kept[name] = value
            left -= _bytes_of(value)
    return kept, problems, notes


def _read_attribute(dataset: Any, name: str, room: int, notes: list[str], *, exact_text: bool) -> tuple[str, Any]:
    """A problem in words, or a value for other formats."""
    h5py = library()
    identifier = h5py.h5a.open(dataset.id, name.encode("utf-8", "surrogateescape"))
    space = identifier.get_space()
    if space.get_simple_extent_type() == h5py.h5s.NULL:
        return _read_null(identifier.dtype, name, notes)
    size = space.get_simple_extent_npoints() * identifier.get_type().get_size()
    if size > room:
        return f"it has {size:,} bytes, the limit for all attributes is {_MANY_BYTES:,}", None
    dtype = identifier.dtype
    if dtype.hasobject and h5py.check_string_dtype(dtype) is None:
        return "it holds references or sequences of varying length", None
    if dtype.fields is not None or dtype.subdtype is not None:
        return "it is of a compound type", None
    if exact_text and dtype.kind == "S" and space.get_simple_extent_type() == h5py.h5s.SCALAR:
        return "", _read_text(identifier, size)
    value = dataset.attrs[name]
    if isinstance(value, np.ndarray) and dtype.hasobject:
        # Empty text is still text.
        value = value.tolist() if value.size else np.zeros(value.shape, "U1")
    if dtype.kind != "b" and h5py.check_enum_dtype(dtype) is not None:
        notes.append(f"attribute {name!r} keeps its value, not the names of its enumeration")
    if (size := _bytes_of(value)) > room:
        return f"it has {size:,} bytes, the limit for all attributes is {_MANY_BYTES:,}", None
    return "", value


def _read_text(identifier: Any, size: int) -> np.bytes_:
    """Text of a fixed length; a conversion to another type would end it at its first NUL."""
    kind, data = identifier.get_type(), np.zeros((), f"S{size}")
    identifier.read(data, mtype=kind)
    ends = kind.get_strpad() == library().h5t.STR_NULLTERM
    return np.bytes_(data.tobytes() if ends else data.tobytes().rstrip(b"\0"))


def _read_null(dtype: np.dtype[Any], name: str, notes: list[str]) -> tuple[str, Any]:
    """An attribute without a value, for other formats; NetCDF writes empty text this way."""
    is_text = dtype.kind == "S" or library().check_string_dtype(dtype) is not None
    if not is_text and (dtype.hasobject or dtype.fields is not None or dtype.kind not in "biufc"):
        return "it is empty, without a value", None
    notes.append(f"attribute {name!r} became {'empty text' if is_text else 'an array of nothing'}: it has no value")
    return "", np.bytes_(b"") if is_text else np.zeros(0, np.dtype(dtype.str))


def _bytes_of(value: Any) -> int:
    """The approximate size of a value in bytes."""
    if isinstance(value, list):
        return sum(_bytes_of(inner) + 8 for inner in value)
    return len(value) if isinstance(value, str) else int(np.asarray(value).nbytes)


def write_attributes(dataset: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes that `adapt` has accepted."""
    h5py = library()
    for name, value in attributes.items():
        plain = np.bytes_(value) if isinstance(value, bytes) else value
        if isinstance(plain, np.ndarray) and plain.dtype.kind == "U":
            plain = plain.astype(object)
        text = isinstance(plain, np.ndarray) and plain.dtype.kind == "O"
        dataset.attrs.create(name, plain, dtype=h5py.string_dtype() if text else None)
