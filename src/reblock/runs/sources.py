"""The sources of a run: those of its arrays, and the files that describe the groups and tables around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any

from reblock.engine.watch import Cancelled
from reblock.errors import ChangedError
from reblock.model import Format
from reblock.runs.identity import identify, identify_array, identify_dataset
from reblock.runs.source import Source, files_in_words, first_change, look
from reblock.runs.work import DatasetWork, Work


class Sources:
    """All that a run reads, as it was when the run began."""

    def __init__(self, works: Sequence[Work], dataset: DatasetWork | None, cancelled: Cancelled) -> None:
        self.each = {work.name: Source(work.source, cancelled) for work in works}
        self._works, self._dataset = works, dataset
        self._files = [] if dataset is None else look(dataset.source.described_by)
        self.location = works[0].source.store.location if dataset is None else dataset.source.location
        """The array or the dataset that is read, for messages."""

    @property
    def is_object(self) -> bool:
        """Whether a part of it is an object of this process, so that the run cannot be resumed."""
        return any(source.is_object for source in self.each.values())

    @property
    def times(self) -> dict[str, Any]:
        """The state that may differ if the bytes do not, for the journal of a new run."""
        return {name: source.times for name, source in self.each.items()}

    @cached_property
    def _watched(self) -> list[tuple[str, list[int] | None]]:
        """The state of all files that describe something, each once."""
        return list({path: (path, state) for files in self._descriptions() for path, state in files}.values())

    def _descriptions(self) -> list[list[tuple[str, list[int] | None]]]:
        return [self._files, *(source.files for source in self.each.values())]

    def check(self) -> None:
        """Raise ChangedError if a file that describes the source has changed."""
        if changed := first_change(self._watched):
            raise ChangedError(f"{self.location}: {changed} changed during the run, so the result would mix two arrays")

    def problem(self, format: Format) -> dict[str, Any]:
        """The problem of the run: what it reads, and what it makes."""
        arrays = {
            work.name: identify_array(work.source, self.each[work.name], work.inner, format, work.schema)
            for work in self._works
        }
        dataset = self._dataset
        return identify(arrays, None if dataset is None else identify_dataset(dataset, self._files, format))

    def describe_change(self, header: Mapping[str, Any]) -> str:
        """The changes to the files, in words, since the run with this journal header began."""
        problem = header["problem"]
        for name, source in self.each.items():
            before = problem["arrays"].get(name)
            if before is not None and any(before["source"][key] != source.identity[key] for key in ("files", "chunks")):
                return source.describe_change(before["source"], header["sources"][name]["newest_ns"])
        before = (problem["dataset"] or {"source": {"files": []}})["source"]["files"]
        pairs = zip_longest(self._files, before)
        return files_in_words([new[0] for new, old in pairs if new is not None and new[1] != old])
