"""Ends of a job: the source as it will be read, and the target as it will be, before anything is planned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from reblock.api.array import ArraySource, open_array
from reblock.api.changing import DECIDED, check_type, find_base, find_patch
from reblock.api.conversion import converted_schema
from reblock.api.dataset import Dataset
from reblock.api.devices import AUTO_DEVICE, Devices, Tried, find_devices
from reblock.api.machine import cores, parse_memory
from reblock.api.request import (
    AccessGiven,
    Chooser,
    MakeChooser,
    Wishes,
    abstract_layouts,
    is_contiguous,
    is_strict,
    one_of,
    parse_codec,
    target_schema,
    wanted_schema,
)
from reblock.api.spreading import DisksGiven, parse_disks, spread_format
from reblock.api.uploads import building_place
from reblock.engine import View
from reblock.errors import ReblockError, UsageError, option, options
from reblock.geometry.notation import AUTO as CHOSEN
from reblock.geometry.notation import Chunks, Order, Ranges, Shape, parse_order, parse_region, parse_shape
from reblock.model import Codec, Device, Format, Layout, Measurable, ObjectBound, Problem, Schema, Store, TreeStore
from reblock.model.change import Patchable
from reblock.planner import AUTO
from reblock.runs.adding import format_of_file
from reblock.runs.adopt import Demands
from reblock.runs.disks import disks_of
from reblock.runs.inside import place_inside
from reblock.runs.source import Files
from reblock.storage import registry
from reblock.storage.location import Location, Where
from reblock.storage.media.registry import medium_of, target_medium
from reblock.units import parse_size

#: What can be read: an array, or a dataset.
AnySource = ArraySource | TreeStore | Dataset
#: What a caller may ask of a target.
_ASKED = ("chunks", "shards", "chunk_order", "codec", "dtype", "fill_value")
#: The most names that a note lists.
_FEW_NAMES = 5


@dataclass(frozen=True)
class Request:
    """What a caller asks of a plan, as given: the arguments of `reblock.plan`."""

    source: AnySource | None = None
    """The array to read; None = described by shape, dtype and source_chunks."""
    target: Where | None = None
    """The array to write."""
    chunks: Chunks | None = None
    """Chunks of the target."""
    memory: str | int | None = None
    """Memory budget."""
    shards: Chunks | None = None
    """Shards of the target."""
    chunk_order: Order | None = None
    """Order of chunks inside the target's shards."""
    access: AccessGiven | None = None
    """Accesses that the target is to serve, which choose what is `auto`."""
    transpose: Order | None = None
    """Order of the source's axes in the target."""
    region: Ranges | None = None
    """Part of the source, in its axes."""
    codec: str | Codec | None = None
    """Codec of the target."""
    checksum: bool = False
    """Whether the target's codec ends in a checksum."""
    dtype: Any = None
    """Type of the target's elements."""
    unsafe_cast: bool = False
    """Whether values that do not survive in that type are converted as numpy does."""
    fill_value: Any = None
    """Fill value of the target."""
    strategy: str = AUTO
    """Strategy whose plan is taken."""
    objective: str = "time"
    """What plans are ranked by."""
    device: str | Device = AUTO_DEVICE
    """Storage of the source."""
    target_device: str | Device | None = None
    """Storage of the target."""
    scratch_device: str | Device | None = None
    """Storage of intermediate arrays."""
    scratch_limit: str | int | None = None
    """Most bytes of intermediate arrays."""
    scratch_objects: int | None = None
    """Most objects of an intermediate array."""
    memory_model: str = "allocated"
    """How memory is counted."""
    from_format: str | None = None
    """Format of the source."""
    allow_external: Sequence[Where] = ()
    """Folders that links in the source may lead to."""
    to_format: str | None = None
    """Format of the target."""
    disks: DisksGiven | None = None
    """Disks over which a block folder is spread, or from which one is read."""
    placement: str | None = None
    """Which block goes to which disk."""
    on_missing: str = "fill"
    """What becomes of chunks that the source does not store."""
    shape: Shape | None = None
    """Shape of a source that is not given."""
    source_chunks: Chunks | None = None
    """Its chunks."""
    source_codec: str | Codec | None = None
    """Its codec."""
    include: str | Sequence[str] = ()
    """Patterns of names: only such arrays of a dataset are taken."""
    exclude: str | Sequence[str] = ()
    """Patterns of names: such arrays of a dataset are left out."""
    skip_unsupported: bool = False
    """Whether arrays of a dataset that the target cannot hold are left out."""
    append_along: str | int | None = None
    """The axis of the existing target along which the source is appended."""
    into_region: Ranges | None = None
    """The region of the existing target that the source replaces."""
    workers: int | None = None
    """Processes on this machine that will share its memory; a run does not remember their number."""

    def __post_init__(self) -> None:
        if self.access is not None and self.chunks is None:
            object.__setattr__(self, "chunks", CHOSEN)

    @property
    def chooses(self) -> bool:
        """Whether accesses are given, or shards or their order are to be chosen."""
        automatic = any(isinstance(one, str) and one.strip() == CHOSEN for one in (self.shards, self.chunk_order))
        return self.access is not None or automatic

    @property
    def changes(self) -> bool:
        """Whether an existing array is changed."""
        return self.append_along is not None or self.into_region is not None

    @property
    def memory_bytes(self) -> int:
        """The memory budget in bytes."""
        return parse_memory(self.memory, self.workers)

    @property
    def scratch_bytes(self) -> int | None:
        """The most bytes of intermediate arrays; None = no limit."""
        return None if self.scratch_limit is None else parse_size(self.scratch_limit)

    @property
    def demands(self) -> Demands:
        """What the plan of an unfinished run must meet to be adopted."""
        return Demands(
            memory_bytes=None if self.memory is None else self.memory_bytes,
            strategy=None if self.strategy == AUTO else self.strategy,
            scratch_bytes=self.scratch_bytes,
            scratch_objects=self.scratch_objects,
        )


@dataclass(frozen=True)
class Ends:
    """Source and target of a job."""

    source: Layout
    """Layout of the source, cropped and transposed."""
    target: Layout
    """Layout of the target."""
    schema: Schema
    """What the target will be."""
    wanted: Schema
    """The same before it was adapted to the target's format."""
    view: View | None = None
    """The source; None where only its shape is known."""
    location: Location | None = None
    """Where the target goes; None where that is not said."""
    format: Format | None = None
    """The target's format."""
    files: Files = field(default_factory=list)
    """Status of the files that describe the source, taken when it was opened."""

    def devices(self, request: Request, tried: Tried | None = None) -> Devices:
        """The devices that a plan is made for; `tried` keeps trials of codecs for other arrays of a dataset."""
        asked = request.device, request.target_device, request.scratch_device
        layouts = self.source, self.target
        disks = disks_of(self.format) if self.format is not None else None
        where = building_place(self.location, self.format) if disks is None else Location(disks.folders[0])
        return find_devices(asked, self.view, where, layouts, self.schema, request.memory_bytes, tried)

    def problem(self, request: Request, devices: Devices) -> Problem:
        """The problem that a plan has to solve."""
        source, target = devices.layouts
        if self.view is not None and request.strategy == AUTO and not is_contiguous(target):
            # A chunk that is written at once is durable at once; only a strategy chosen by name cuts chunks.
            target = replace(target, partial_writes=False)
        if self.view is not None and not self.view.store.medium.is_local:
            source = replace(source, remote=True)
        return Problem(
            source,
            target,
            request.memory_bytes,
            devices.source,
            devices.target,
            devices.scratch,
            request.scratch_bytes,
            request.scratch_objects,
            cores=cores(),
            held=one_of("memory model", request.memory_model, ("allocated", "held")) == "held",
        )


def find_ends(request: Request) -> Ends:
    """Open the source and describe the target; nothing is written."""
    if request.source is None:
        return _abstract_ends(request)
    if isinstance(request.source, TreeStore | Dataset):
        raise UsageError(f"{request.source!r} is a dataset, not an array")
    return _stored_ends(request, request.source)


def _abstract_ends(request: Request) -> Ends:
    shape, dtype, source_chunks, chunks = request.shape, request.dtype, request.source_chunks, request.chunks
    if shape is None or dtype is None or source_chunks is None or chunks is None:
        raise UsageError(f"a plan without a source needs {options('shape', 'dtype', 'source_chunks', 'chunks')}")
    if request.checksum:
        raise UsageError(
            f"{option('checksum')} is for a target of a known format; without a source, name it in {option('codec')}"
        )
    if request.chunk_order is not None:
        raise UsageError(f"{option('chunk_order')} is for a target of a known format, with shards")
    if request.disks or request.placement is not None:
        raise UsageError(f"{option('disks')} is for a target of a known format")
    codecs = parse_codec(request.source_codec), parse_codec(request.codec)
    views = request.transpose, request.region
    choose = None if request.access is None else _chooser(request, None)
    source, schema, target = abstract_layouts(
        parse_shape(shape), dtype, source_chunks, codecs[0], chunks, codecs[1], *views, choose
    )
    return Ends(source, target, schema, schema)


def _chooser(request: Request, kind: Format | None) -> MakeChooser:
    """Makes the chooser of chunks for a request; its modules are loaded only where something is to be chosen."""
    choosing = import_module("reblock.api.choosing")
    axes: Any = import_module("reblock.advisor.document").ArrayAxes

    def make(shape: tuple[int, ...], names: tuple[str, ...] | None, itemsize: int, codec: Codec) -> Chooser:
        made: Chooser = choosing.ChunkChooser.of(
            request.access, axes(shape, names), itemsize, kind, codec, request.target_device or request.device
        )
        return made

    return make


def _stored_ends(request: Request, source: ArraySource) -> Ends:
    check_stored(request)
    disks = parse_disks(request.disks)
    array = open_array(source, request.from_format, (*request.allow_external, *disks))
    if request.changes:
        return _changing_ends(request, array.store, array.files)
    where, kind = find_target(request, array.store.format)
    if where is not None and request.to_format is None:
        kind = format_of_file(where, kind)
    kind = spread_format(kind, disks, request.placement, array.store, where)
    ends = ends_of(request, array.store, array.files, where, kind)
    lost = _lost_around(source, array.store)
    return replace(ends, schema=replace(ends.schema, notes=(*ends.schema.notes, *lost))) if lost else ends


def _lost_around(source: ArraySource, store: Store) -> list[str]:
    """A note on the attributes of a file or group whose only array is taken, because it was not named."""
    if not isinstance(source, str | os.PathLike) or registry.is_joined(source):
        return []
    where = Location.parse(store.location)
    if not where.inner or registry.locate(source) == where:
        return []
    try:
        tree = registry.open_tree(source, store.format).tree
    except ReblockError:
        return []
    names = [name for group in tree.groups.values() for name in group.attributes]
    if not names:
        return []
    some = ", ".join(names[:_FEW_NAMES]) + (", …" if len(names) > _FEW_NAMES else "")
    return [
        f"attributes {some} of {os.fspath(source)} are not kept: its only array {where.inner} becomes an array alone; "
        "with the pattern '*' to include, all of it is copied as a dataset"
    ]


def check_stored(request: Request) -> None:
    """Raise UsageError if a stored source is also described."""
    if request.shape is not None or request.source_chunks is not None or request.source_codec is not None:
        raise UsageError(f"{options('shape', 'source_chunks', 'source_codec')} describe a source that is not given")
    if request.unsafe_cast and request.dtype is None:
        raise UsageError(f"{option('unsafe_cast')} is for elements of another type: give {option('dtype')}")


def find_target(request: Request, source_format: str) -> tuple[Location | None, Format]:
    """Where the target goes, if that is said, and its format."""
    where = None if request.target is None else registry.locate(request.target)
    if where is None:
        return None, registry.get(request.to_format or source_format)
    target_medium(where.path)
    kind = registry.for_target(where.path, request.to_format)
    where, found = place_inside(where, kind)
    if found is not kind and request.to_format is not None:
        raise UsageError(f"{option('to_format', request.to_format)}: {where} is inside a group of {found.name}")
    return where, found


def ends_of(request: Request, opened: Store, files: Files, where: Location | None, kind: Format) -> Ends:
    """The ends of a job that reads a store; `files` describe it."""
    view = _view(request, opened)
    choose = _chooser(request, kind) if request.chooses else None
    codec = parse_codec(request.codec)
    wishes = Wishes(
        *(request.chunks, request.shards, request.chunk_order, codec),
        *(request.dtype, request.fill_value, choose),
    )
    wanted = wanted_schema(view, wishes)
    asked = {name for name in _ASKED if getattr(request, name) is not None}
    schema = target_schema(kind, wanted, asked, checksum=request.checksum)
    if where is not None and not medium_of(where.path).writes_ranges:
        schema = replace(schema, whole_objects=True)
    return Ends(view.layout, kind.layout(schema), schema, wanted, view, where, kind, files)


def _changing_ends(request: Request, opened: Store, files: Files) -> Ends:
    """The ends of a job that changes a part of an existing array."""
    check_decided(request)
    where, base = find_base(request.target, request.to_format)
    return patch_ends(request, opened, files, where, base)


def patch_ends(
    request: Request, opened: Store, files: Files, where: Location, base: Patchable, place: tuple[str, str] = ("", "")
) -> Ends:
    """The ends of a job that changes an array; `place` is the group that is changed and the array's name in it."""
    view = _view(request, opened)
    plain = replace(view.store.schema, fill_value=None, attributes={})
    converted = converted_schema(plain, request.dtype, None, checked=view.checked)
    check_type(base, converted.dtype)
    patch, schema = find_patch(base, view, request.append_along, request.into_region, request.chunks, place)
    schema = replace(schema, notes=(*schema.notes, *converted.notes))
    return Ends(view.layout, patch.layout(schema), schema, schema, view, where, patch, files)


def check_decided(request: Request) -> None:
    """Raise UsageError for options of a new array."""
    if given := [option(name) for name in DECIDED if getattr(request, name) not in (None, False)]:
        raise UsageError(f"{given[0]} is for a new array, and the target exists: leave it out")


def _view(request: Request, opened: Store) -> View:
    """The part of the source that is read, in the order of the target's axes."""
    store = opened.measured() if isinstance(opened, Measurable) else opened
    strict = is_strict(request.on_missing)
    if strict and isinstance(store, ObjectBound) and store.fills:
        raise UsageError(
            f"{option('on_missing', 'error')}: {store.location} is read through the object, which does not tell "
            "whether a chunk is stored"
        )
    return View(
        store,
        parse_region(request.region, store.layout.shape, store.schema.axes),
        parse_order(request.transpose, store.layout.ndim, store.schema.axes),
        strict=strict,
        checked=not request.unsafe_cast,
    )
