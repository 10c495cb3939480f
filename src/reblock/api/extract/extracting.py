"""Extract: many regions of interest from one array, each chunk read once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reblock.api.array import Array, ArraySource, open_array
from reblock.api.extract.masks import mask_regions, parse_mask
from reblock.api.extract.reading import Extraction, RegionReader
from reblock.api.extract.regions import (
    Region,
    SphereGiven,
    box_regions,
    check_regions,
    read_spheres,
    sphere_regions,
)
from reblock.api.extract.targets import RegionDataset, same_everywhere
from reblock.api.machine import parse_memory
from reblock.api.planning import plan_array
from reblock.api.request import Wishes, is_strict, one_of, parse_codec
from reblock.api.running import run
from reblock.engine import Report
from reblock.errors import UsageError, option
from reblock.geometry.notation import Chunks, Ranges
from reblock.model import Codec, Traffic
from reblock.storage import registry
from reblock.storage.location import Where

#: What regions become.
RESULTS = ("array", "table", "values")


def extract(
    source: ArraySource,
    target: Where | None = None,
    *,
    regions: Iterable[Ranges] = (),
    spheres: Iterable[SphereGiven] = (),
    sphere_files: Iterable[Where] = (),
    masks: Iterable[str] = (),
    result: str = "array",
    outside: str = "keep",
    chunks: Chunks | None = None,
    codec: str | Codec | None = None,
    memory: str | int | None = None,
    from_format: str | None = None,
    allow_external: Sequence[Where] = (),
    to_format: str | None = None,
    on_missing: str = "fill",
    overwrite: bool = False,
    dry_run: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> Extraction:
    """Extract regions of interest; chunks that several regions need are read once.

    `regions` are boxes as in `plan`. `spheres` are centres and a radius in elements of the source; `sphere_files` are
    CSV files with one in each row. `masks` are locations of arrays of labels, such as `labels.npy` or
    `labels.npy=3,4`; each label is a region.

    One region becomes an array; several become a dataset with an array for each, whose attribute `origin` is its
    position. An array is the box around its region, with all elements; `outside="fill"` replaces those that are not in
    the sphere or label by the fill value. `result="table"` gives statistics of the elements inside, `result="values"`
    the elements themselves, as .csv, .npz or .parquet. Without a target, arrays and rows are in the result.

    Examples
    --------
    >>> import numpy, reblock
    >>> volume = numpy.arange(1000).reshape(10, 10, 10)
    >>> found = reblock.extract(volume, spheres=["5,5,5,2", "0,0,0,1"], result="table")
    >>> [(row["region"], row["count"], row["mean"]) for row in found.rows]
    [('sphere_0', 33, 555.0), ('sphere_1', 4, 27.75)]
    """
    one_of(option("result"), result, RESULTS)
    one_of(option("outside"), outside, ("keep", "fill"))
    memory_bytes = parse_memory(memory)
    array = open_array(source, from_format, allow_external)
    found = _find(array, regions, spheres, sphere_files, masks, memory_bytes, allow_external)
    plain = all(one.inside is None for one in found) or outside == "keep"
    if target is not None and result == "array" and len(found) == 1 and plain and not dry_run:
        options: dict[str, Any] = {"chunks": chunks, "codec": codec, "memory": memory, "from_format": from_format}
        options |= {"allow_external": allow_external, "to_format": to_format, "on_missing": on_missing}
        job = plan_array(array if from_format is None else source, target, region=_ranges(found[0]), **options)
        return _extracted(found[0], str(target), run(job, overwrite=overwrite, cancelled=cancelled))
    work = RegionReader(array, found, result, outside, memory_bytes, strict=is_strict(on_missing), cancelled=cancelled)
    if target is None:
        return work.in_memory(dry_run=dry_run)
    where = registry.locate(target)
    if result != "array":
        return work.into_table(where, overwrite=overwrite, dry_run=dry_run)
    wishes = Wishes(chunks, None, None, parse_codec(codec), None, None)
    asked = same_everywhere({"chunks": chunks, "codec": codec})
    dataset = RegionDataset.of(work.view, found, where, registry.for_target(where.path, to_format), wishes, asked)
    return work.into_dataset(dataset, overwrite=overwrite, dry_run=dry_run)


def _ranges(region: Region) -> list[slice]:
    return [slice(a, b) for a, b in zip(region.box.start, region.box.stop, strict=True)]


def _extracted(region: Region, target: str, report: Report) -> Extraction:
    """The result of one region that an ordinary run has made, so that it could be resumed."""
    read = report.passes[0].source if report.passes else Traffic()
    known = ((region,), target, "array", None, read)
    return Extraction(*known, report.elapsed_seconds, report=report, notes=report.notes)


def _find(
    array: Array,
    regions: Iterable[Ranges],
    spheres: Iterable[SphereGiven],
    sphere_files: Iterable[Where],
    masks: Iterable[str],
    memory_bytes: int,
    allow_external: Sequence[Where],
) -> list[Region]:
    for name, value in {"regions": regions, "spheres": spheres, "sphere_files": sphere_files, "masks": masks}.items():
        if isinstance(value, str | slice):
            raise UsageError(f"{name} is a list: put a single one into brackets")
    found = list(box_regions(list(regions), array.shape, array.axes))
    given: list[tuple[str, SphereGiven]] = [("", one) for one in spheres]
    for file in sphere_files:
        given += read_spheres(file, len(array.shape))
    found += sphere_regions(given, array.shape)
    for mask in masks:
        location, labels = parse_mask(mask)
        found += mask_regions(location, labels, array.shape, memory_bytes, allow_external)
    return check_regions(found)
