"""Targets of extractions: an array, a dataset with one for each region, or a table; published when it is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from reblock.api.extract.regions import Region
from reblock.api.request import Wishes, target_schema, wanted_schema
from reblock.engine import View
from reblock.engine.objects import ObjectWriter, object_memory
from reblock.errors import ReblockError, TargetExistsError, UsageError, option
from reblock.model import Format, Schema, Store, Tree, TreeFormat
from reblock.model.dataset import GroupSchema
from reblock.model.medium import FILE
from reblock.runs.apart import check_apart
from reblock.runs.replace import check_replaceable
from reblock.runs.space import Need, check_space
from reblock.runs.staging import Staging
from reblock.storage import registry
from reblock.storage.location import Location


@dataclass(frozen=True)
class RegionDataset:
    """The dataset that regions become, or the array that a single one becomes."""

    target: Location
    """Where it goes."""
    format: Format
    """Its format, which holds datasets if there are several regions."""
    tree: Tree
    """What it will be."""
    names: tuple[str, ...]
    """Names of its arrays, in the order of the regions."""

    @classmethod
    def of(
        cls,
        view: View,
        regions: Sequence[Region],
        target: Location,
        kind: Format,
        wishes: Wishes,
        asked: set[str],
    ) -> RegionDataset:
        """A dataset with one array for each region; a single region is an array."""
        single = len(regions) == 1
        if not single and not isinstance(kind, TreeFormat):
            holders = [name for name in registry.file_formats() if _holds_trees(name)]
            raise UsageError(
                f"{target.path}: {len(regions)} regions are a dataset of as many arrays, and {kind.name} holds one; "
                f"{', '.join(holders)} hold several, or ask for {option('result', 'table')}"
            )
        arrays: dict[str, Schema] = {}
        for region in regions:
            part = View(view.store, region.box, view.axes, strict=view.strict)
            wanted = wanted_schema(part, wishes)
            if wishes.chunks is None:
                # Regions are smaller than chunks, as a rule.
                wanted = replace(
                    wanted, notes=tuple(note for note in wanted.notes if "longer than the array" not in note)
                )
            attributes = wanted.attributes if single else {**wanted.attributes, **region.attributes}
            arrays[region.name] = target_schema(kind, replace(wanted, attributes=attributes), asked, checksum=False)
        tree = Tree({"": GroupSchema()}, arrays)
        if isinstance(kind, TreeFormat) and not single:
            tree = kind.adapt_tree(tree, asked)
        for name, table in tree.tables.items():
            raise UsageError(f"{target.path}: {kind.name} cannot hold {name}: {table.why}")
        return cls(target, kind, tree, tuple(arrays))

    @property
    def trees(self) -> TreeFormat | None:
        """The format, if the target is a dataset; None for a single array."""
        return self.format if len(self.names) > 1 and isinstance(self.format, TreeFormat) else None

    @property
    def notes(self) -> list[str]:
        """What could not be kept."""
        found = (*self.tree.notes, *(note for schema in self.tree.arrays.values() for note in schema.notes))
        return list(dict.fromkeys(found))

    def memory_bytes(self) -> int:
        """Bytes that writing takes beside the elements of regions."""
        return max((object_memory(self.format.layout(schema)) for schema in self.tree.arrays.values()), default=0)

    def need(self, staging: Staging) -> Need:
        """The space that it will take."""
        layouts = [self.format.layout(schema) for schema in self.tree.arrays.values()]
        files = sum(layout.objects.count + 4 for layout in layouts)
        return Need(staging.parent, sum(layout.nbytes for layout in layouts), files, certain=False)


class DatasetWriter:
    """Writes the arrays of a dataset in its staging folder."""

    def __init__(self, dataset: RegionDataset, staging: Staging) -> None:
        self._dataset = dataset
        self._elsewhere = registry.elsewhere(staging.building)
        self._left: dict[str, tuple[Store, ObjectWriter, int]] = {}
        self._path, inner = staging.workspace.array, dataset.target.inner
        if dataset.trees is not None:
            dataset.trees.create_tree(self._path, inner, dataset.tree, **self._elsewhere)
        else:
            self._take(dataset.names[0], dataset.format.create)

    def open(self, name: str) -> ObjectWriter:
        """The writer of one array."""
        if name not in self._left:
            self._take(name, self._dataset.format.reopen)
        return self._left[name][1]

    def _take(self, name: str, opening: Callable[..., Store]) -> None:
        dataset = self._dataset
        parts = (dataset.target.inner, name if dataset.trees is not None else "")
        schema, inner = dataset.tree.arrays[name], "/".join(part for part in parts if part)
        store = opening(self._path, inner, schema, **self._elsewhere)
        self._left[name] = (store, ObjectWriter(store), store.layout.objects.count)

    def write(self, name: str, number: int, elements: Any) -> None:
        """Write an object of an array; the array is finished with its last one."""
        self.open(name).write(number, elements)
        store, writer, left = self._left[name]
        self._left[name] = (store, writer, left - 1)
        if left == 1:
            self._finish(name)

    def finish(self) -> None:
        """Finish everything else, arrays without elements included."""
        for name in self._dataset.names:
            if not self._dataset.format.layout(self._dataset.tree.arrays[name]).objects.count:
                self.open(name)
                self._finish(name)
        dataset = self._dataset
        if dataset.trees is not None:
            dataset.trees.commit_tree(self._path, dataset.target.inner, dataset.tree, {}, **self._elsewhere)

    def _finish(self, name: str) -> None:
        store, writer, _ = self._left.pop(name)
        writer.sync(self._path)
        store.commit()

    def abort(self) -> None:
        """Close what is open."""
        for store, _, _ in self._left.values():
            store.abort()


def _holds_trees(name: str) -> bool:
    try:
        return isinstance(registry.get(name), TreeFormat)
    except UsageError:
        return False


# ---------------------------------------------------------------- staging
def check_target(source: Store, target: Location, staging: Staging, needs: Sequence[Need], *, table: bool) -> list[str]:
    """Raise if the target may not be made; returns notes. Nothing is touched."""
    check_apart(source, target, [("staging folder", staging.folder)])
    if table:
        _check_table(target.path, staging)
    else:
        staging.check()
    return check_space(list(needs))


def _check_table(path: str, staging: Staging) -> None:
    """A table may replace a file, if asked to, but nothing else."""
    if staging.workspace.has_target:
        if not staging.overwrite:
            raise TargetExistsError(
                f"{path} exists: choose another name, or give {option('overwrite', True)} to replace it"
            )
        if staging.medium.status(path, follow=False).kind != FILE:
            raise TargetExistsError(f"{path} is not a file: a table replaces files only")


@contextmanager
def staged(staging: Staging, *, table: bool) -> Iterator[None]:
    """Build a target out of sight under its lock, publish it afterwards; on any error, nothing is left."""
    with staging:
        staging.workspace.restore()
        if staging.workspace.has_log:
            # An unfinished run of `run` may still be resumed.
            raise TargetExistsError(
                f"an unfinished run is in the place of {staging.target}: resume it, or remove it with `reblock clean`"
            )
        staging.workspace.clear()
        try:
            yield
        except BaseException as error:
            if isinstance(error, ReblockError):
                staging.rename_in(error)
            staging.remove()
            raise
        if not table and staging.workspace.has_target:
            check_replaceable(staging.target, dataset=True)
        staging.publish()
        staging.remove(finished=True)


def same_everywhere(chosen: Mapping[str, Any]) -> set[str]:
    """Names of the options that were given."""
    return {name for name, value in chosen.items() if value is not None}
