"""Reading regions: pieces of them, the plan that reads these together, and where they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.array import Array
from reblock.api.extract.regions import Region
from reblock.api.extract.tables import (
    STATISTICS_BYTES,
    WRITING_BYTES,
    Statistics,
    TableStream,
    check_numbers,
    table_ending,
    value_table,
    write_statistics,
)
from reblock.api.extract.targets import DatasetWriter, RegionDataset, check_target, staged
from reblock.api.machine import cores
from reblock.engine import Report, View, gather, reading_bytes
from reblock.engine.pipeline.boxes import fill_element
from reblock.engine.region import fit, full_axes
from reblock.engine.view import part as part_of
from reblock.errors import ChangedError, InfeasibleError, UsageError
from reblock.geometry import Box
from reblock.model import Traffic
from reblock.model.gather import GatherPlan
from reblock.model.store import is_single_file
from reblock.planner.gather import cut_box, plan_gather, reads_units
from reblock.runs.source import first_change
from reblock.runs.space import Need
from reblock.runs.staging import Staging
from reblock.storage.location import Location
from reblock.units import format_size

#: Memory of a sphere or label for each element: labels, which are inside, and their numbers.
_MARK_BYTES = 18
#: Statistics are taken of parts of regions of at most this share of the budget.
_PARTS = 16


@dataclass(frozen=True)
class Extraction:
    """What an extraction found and what it cost."""

    regions: tuple[Region, ...]
    """The regions, in the order in which they were given."""
    target: str | None
    """Where they went; None = into memory."""
    result: str
    """`array`, `table` or `values`."""
    plan: GatherPlan | None
    """How they were read; None for a single box, which is an ordinary run."""
    traffic: Traffic = field(default_factory=Traffic)
    """Opens, runs and bytes of reading."""
    seconds: float = 0.0
    """Time that it took."""
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)
    """Elements by region, if there is no target."""
    rows: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """Statistics by region, if a table was asked for."""
    report: Report | None = None
    """The report of the run, for a single box."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing."""

    def to_json(self) -> dict[str, Any]:
        """What `reblock extract --json` prints."""
        plan = self.plan
        return {
            "target": self.target,
            "result": self.result,
            "regions": [
                {"name": one.name, "start": list(one.box.start), "stop": list(one.box.stop)} for one in self.regions
            ],
            "predicted": None
            if plan is None
            else {
                "objects": plan.objects,
                "bytes_read": plan.bytes,
                "held_bytes": plan.held_bytes,
                "sweeps": plan.sweeps,
            },
            "measured": {"objects": self.traffic.opens, "runs": self.traffic.runs, "bytes_read": self.traffic.bytes},
            "statistics": self.rows,
            "elapsed_seconds": self.seconds,
            "notes": list(self.notes),
        }


class RegionReader:
    """One extraction: its pieces, its plan, and where the pieces go."""

    def __init__(
        self,
        array: Array,
        regions: Sequence[Region],
        result: str,
        outside: str,
        memory_bytes: int,
        *,
        strict: bool,
        cancelled: Callable[[], bool],
    ) -> None:
        whole = View.whole(array.store)
        self._files, self._regions, self._result, self._cancelled = array.files, regions, result, cancelled
        self._memory = memory_bytes
        self.view = fit(View(whole.store, whole.region, whole.axes, strict=strict), memory_bytes // 4)
        self._fills = outside == "fill"
        if result == "table":
            check_numbers(array.dtype)
        self._began = perf_counter()

    # ---------------------------------------------------------------- where regions go
    def in_memory(self, *, dry_run: bool) -> Extraction:
        """Arrays, values or statistics as Python objects; the caller pays for their memory."""
        if self._result == "table":
            return self._statistics(None, dry_run=dry_run)
        arrays: dict[str, npt.NDArray[Any]] = {}
        boxes = [one.box for one in self._regions]
        most = sum(box.size for box in boxes) * self.view.layout.itemsize + self._memory
        plan = self._plan(boxes, [self._bytes(number, box) for number, box in enumerate(boxes)], beside=0, memory=most)

        def done(number: int, elements: npt.NDArray[Any]) -> None:
            region = self._regions[number]
            if self._result == "values" and region.inside is not None:
                elements = elements[region.inside(region.box)]
            elif self._result == "values":
                elements = elements.reshape(-1)
            else:
                self._fill_outside(region, region.box, elements)
            arrays[region.name] = elements

        traffic = Traffic() if dry_run else self._gather(plan, boxes, done)
        ordered = {one.name: arrays[one.name] for one in self._regions if one.name in arrays}
        return self._extraction(None, plan, traffic, arrays=ordered)

    def into_table(self, target: Location, *, overwrite: bool, dry_run: bool) -> Extraction:
        """A file of statistics or of values."""
        if target.inner:
            raise UsageError(f"{target}: a table is a file, leave out ::{target.inner}")
        ending = table_ending(target.path)
        if self._result == "table":
            return self._statistics(target, overwrite=overwrite, dry_run=dry_run)
        boxes = [one.box for one in self._regions]
        itemsize = self.view.layout.itemsize
        sizes = [self._bytes(number, box) + box.size * itemsize for number, box in enumerate(boxes)]
        plan = self._plan(boxes, sizes, beside=WRITING_BYTES[ending])
        staging = Staging(target.path, overwrite=overwrite, single_file=True)
        need = Need(staging.parent, sum(box.size for box in boxes) * itemsize, 2, certain=False)
        notes = check_target(self.view.store, target, staging, [need], table=True)
        if dry_run:
            return self._extraction(target, plan, Traffic(), notes=notes)
        axes = self.view.store.schema.axes or tuple(f"axis_{axis}" for axis in range(self.view.layout.ndim))
        with staged(staging, table=True):
            with staging.building.writer(staging.workspace.array) as handle:
                stream = TableStream(handle)
                table = value_table(ending, stream, axes, self.view.layout.dtype)

                def done(number: int, elements: npt.NDArray[Any]) -> None:
                    region = self._regions[number]
                    table.add(region, elements, None if region.inside is None else region.inside(region.box))

                try:
                    traffic = self._gather(plan, boxes, done)
                    table.close()
                except BaseException:
                    stream.discard()
                    raise
            staging.building.sync_all([staging.workspace.array], staging.workspace.reach)
        return self._extraction(target, plan, traffic, notes=notes)

    def into_dataset(self, dataset: RegionDataset, *, overwrite: bool, dry_run: bool) -> Extraction:
        """One array for each region."""
        beside = dataset.memory_bytes()
        boxes = [one.box for one in self._regions]
        owners: list[tuple[int, int | None]] = [(number, None) for number in range(len(boxes))]
        try:
            plan = self._plan(boxes, [self._bytes(number, box) for number, box in enumerate(boxes)], beside=beside)
        except InfeasibleError:
            boxes, owners = self._object_pieces(dataset)
            sizes = [self._bytes(owner, box) for (owner, _), box in zip(owners, boxes, strict=True)]
            plan = self._plan(boxes, sizes, beside=beside)
        is_file = is_single_file(dataset.format)
        staging = Staging(dataset.target.path, overwrite=overwrite, dataset=True, single_file=is_file)
        need = dataset.need(staging)
        notes = [*dataset.notes, *check_target(self.view.store, dataset.target, staging, [need], table=False)]
        if dry_run:
            return self._extraction(dataset.target, plan, Traffic(), notes=notes)
        with staged(staging, table=False):
            writer = DatasetWriter(dataset, staging)

            def done(number: int, elements: npt.NDArray[Any]) -> None:
                owner, place = owners[number]
                region = self._regions[owner]
                self._fill_outside(region, boxes[number], elements)
                if place is not None:
                    writer.write(region.name, place, elements)
                    return
                for other, box in list(writer.open(region.name).boxes()):
                    writer.write(region.name, other, part_of(elements, box))

            try:
                traffic = self._gather(plan, boxes, done)
                writer.finish()
            except BaseException:
                writer.abort()
                raise
        return self._extraction(dataset.target, plan, traffic, notes=notes)

    def _object_pieces(self, dataset: RegionDataset) -> tuple[list[Box], list[tuple[int, int | None]]]:
        """Regions in the chunks of their arrays, for regions that do not fit into memory."""
        boxes: list[Box] = []
        owners: list[tuple[int, int | None]] = []
        for number, region in enumerate(self._regions):
            grid = dataset.format.layout(dataset.tree.arrays[region.name]).objects
            for part, index in enumerate(grid.indices()):
                boxes.append(grid.box(index).shift(region.box.start))
                owners.append((number, part))
        return boxes, owners

    def _statistics(self, target: Location | None, *, overwrite: bool = False, dry_run: bool) -> Extraction:
        boxes, owners, plan = self._planned_parts()
        staging, notes = None, list[str]()
        if target is not None:
            staging = Staging(target.path, overwrite=overwrite, single_file=True)
            notes = check_target(self.view.store, target, staging, [], table=True)
        if dry_run:
            return self._extraction(target, plan, Traffic(), notes=notes)
        taken = [Statistics() for _ in self._regions]

        def done(number: int, elements: npt.NDArray[Any]) -> None:
            region = self._regions[owners[number]]
            taken[owners[number]].add(elements if region.inside is None else elements[region.inside(boxes[number])])

        def rows() -> list[dict[str, Any]]:
            return [one.row(region.name) for one, region in zip(taken, self._regions, strict=True)]

        if target is None or staging is None:
            traffic = self._gather(plan, boxes, done)
            return self._extraction(None, plan, traffic, rows=rows())
        with staged(staging, table=True):
            traffic = self._gather(plan, boxes, done)
            with staging.building.writer(staging.workspace.array) as handle:
                write_statistics(table_ending(target.path), TableStream(handle), rows())
            staging.building.sync_all([staging.workspace.array], staging.workspace.reach)
        return self._extraction(target, plan, traffic, rows=rows(), notes=notes)

    def _planned_parts(self) -> tuple[list[Box], list[int], GatherPlan]:
        """Regions in parts, for results that add up; parts of single objects where larger ones share too little."""
        found = self._priced(self._parts(max(self._memory // _PARTS, 1)))
        if found[2].sweeps == 1 or not reads_units(self.view.layout):
            return found
        return min(found, self._priced(self._parts(0)), key=lambda one: one[2].bytes)

    def _priced(self, parts: tuple[list[Box], list[int]]) -> tuple[list[Box], list[int], GatherPlan]:
        """Parts of regions, with the plan that reads them."""
        boxes, owners = parts
        sizes = [self._bytes(owner, box) * 2 for owner, box in zip(owners, boxes, strict=True)]
        return boxes, owners, self._plan(boxes, sizes, beside=STATISTICS_BYTES)

    def _parts(self, most: int) -> tuple[list[Box], list[int]]:
        """Regions in parts of about so many bytes at most, cut between objects; 0 = of one object each."""
        boxes: list[Box] = []
        owners: list[int] = []
        objects = self.view.layout.objects
        for number, region in enumerate(self._regions):
            cuts: list[Sequence[int]] = [()] * region.box.ndim
            for axis in self.view.layout.order:
                largest = max(self._bytes(number, box) for box in cut_box(region.box, cuts))
                if largest <= most:
                    break
                low, high = region.box.start[axis], region.box.stop[axis]
                known = objects.axes[axis]
                cuts[axis] = [known.interval(one)[0] for one in known.touching(low, high)]
                if known.count <= 1 and most:
                    share = max((high - low) * most // max(largest, 1), 1)
                    cuts[axis] = range(low, high, share)
            parts = list(cut_box(region.box, cuts))
            boxes += parts
            owners += [number] * len(parts)
        return boxes, owners

    # ---------------------------------------------------------------- reading
    def _bytes(self, number: int, box: Box) -> int:
        """Memory of a piece of a region."""
        marks = 0 if self._regions[number].inside is None else _MARK_BYTES
        return box.size * (self.view.layout.itemsize + marks)

    def _plan(
        self, boxes: Sequence[Box], sizes: Sequence[int], *, beside: int, memory: int | None = None
    ) -> GatherPlan:
        budget = self._memory if memory is None else memory
        self._reading, self._threads = reading_bytes(self.view, self._memory, cores())
        layout = self.view.layout
        full = () if reads_units(layout) else full_axes(self.view)
        try:
            return plan_gather(layout, boxes, sizes, budget - self._reading - beside, full=full)
        except InfeasibleError as error:
            needed = (error.needs_memory_bytes or 0) + self._reading + beside
            raise InfeasibleError(
                f"extracting from {self.view.store.location} does not fit a memory budget of {format_size(budget)} "
                f"({budget} bytes): needs at least {format_size(needed)} ({needed} bytes)",
                needs_memory_bytes=needed,
            ) from None

    def _gather(self, plan: GatherPlan, boxes: Sequence[Box], done: Callable[[int, npt.NDArray[Any]], None]) -> Traffic:
        self._check_source()
        layout = self.view.layout
        traffic = gather(
            *(self.view, plan, boxes),
            take=lambda number: np.empty(boxes[number].shape, layout.dtype),
            done=done,
            whole=reads_units(layout),
            memory_bytes=self._reading,
            threads=self._threads,
            cancelled=self._cancelled,
        )
        # Pieces without elements are never read.
        for number, box in enumerate(boxes):
            if not box.size:
                done(number, np.empty(box.shape, layout.dtype))
        self._check_source()
        return traffic

    def _check_source(self) -> None:
        if changed := first_change(self._files):
            raise ChangedError(f"{changed} changed since {self.view.store.location} was opened: repeat the command")

    def _fill_outside(self, region: Region, box: Box, elements: npt.NDArray[Any]) -> None:
        if self._fills and region.inside is not None:
            elements[~region.inside(box)] = fill_element(self.view.store)

    def _extraction(
        self,
        target: Location | None,
        plan: GatherPlan,
        traffic: Traffic,
        *,
        arrays: dict[str, npt.NDArray[Any]] | None = None,
        rows: list[dict[str, Any]] | None = None,
        notes: Sequence[str] = (),
    ) -> Extraction:
        if plan.sweeps > 1:
            notes = [*notes, f"chunks are read up to {plan.sweeps} times: more memory would read each once"]
        return Extraction(
            *(tuple(self._regions), None if target is None else str(target), self._result, plan, traffic),
            seconds=perf_counter() - self._began,
            arrays=arrays or {},
            rows=rows or [],
            notes=tuple(notes),
        )
