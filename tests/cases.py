"""Problems on files and in memory: making them, and comparing a run with its prediction."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from reblock.cost import PRESETS
from reblock.cost.estimate import estimate_passes
from reblock.cost.memory import buffer_bytes, least_box_bytes
from reblock.engine import View, execute_in_order, execute_plan, load
from reblock.geometry import Box, Grid
from reblock.model import Plan, Problem, Schema, Store
from reblock.planner import choose
from reblock.runs.journal import Journal
from reblock.runs.staging import Staging
from reblock.storage import registry
from reblock.storage.media.file_log import FileLog
from reblock.storage.media.memory import MEMORY
from reblock.storage.media.registry import medium_of
from reblock.testing.recording import RecordingMedium
from reblock.testing.scratch import ScratchFolder


def cuts(rng: random.Random, length: int, *, regular: bool) -> int | tuple[int, ...]:
    """A chunk length, or lengths."""
    if regular or rng.random() < 0.7 or length < 2:
        return rng.randint(1, length)
    inner = sorted(rng.sample(range(1, length), rng.randint(1, min(length - 1, 3))))
    return tuple(b - a for a, b in zip([0, *inner], [*inner, length], strict=True))


def make(folder: Path | str, name: str, format_name: str, shape: tuple[int, ...], chunks, order=(), **more) -> Store:
    """A fresh store of two-byte elements."""
    kind = registry.get(format_name)
    schema = kind.adapt(Schema(shape, np.dtype("u2"), chunks, order=order, **more), {"chunks"})
    path = f"{folder}/{name}"
    return kind.create(path, "", schema, medium=medium_of(path))


def fill(store: Store, array: np.ndarray) -> None:
    """Write an array into a fresh store by the simplest pass there is."""
    objects = store.layout.objects.clipped()
    whole = Grid.whole(array.shape)
    stream, seed = io.BytesIO(), f"memory://seeds/{id(store)}.npy"
    np.save(stream, array)
    MEMORY.write(seed, [stream.getbuffer()])
    view = View.whole(registry.open(seed))
    problem = Problem(view.layout, store.layout, 1 << 30, PRESETS["nvme"])
    plan = choose(problem, strategy="naive").plan
    execute_in_order(replace(plan.passes[0], read=objects, tasks=whole), view, store)
    store.commit()
    MEMORY.remove(seed)


def header(store: Store) -> int:
    return len(store.preamble((0,) * store.layout.ndim))


def check_pass(plan: Plan, problem: Problem, view: View, target: Store, wanted: np.ndarray) -> None:
    (sweep,) = plan.passes
    (predicted,) = estimate_passes(plan, problem)
    source, sink = RecordingMedium(view.store.medium), RecordingMedium(target.medium)
    measured = execute_in_order(sweep, replace(view, store=source.of(view.store)), sink.of(target))
    reads, writes = predicted.source, predicted.target
    assert source.counts(writing=False, skip=header(view.store)) == (reads.opens, reads.runs, reads.bytes)
    assert sink.counts(writing=True, skip=header(target)) == (writes.opens, writes.runs, writes.bytes)
    assert (measured.source, measured.target) == (reads, writes)
    assert measured.held_elements * target.layout.itemsize == predicted.held_bytes
    assert max(measured.peak_bytes, least_box_bytes(target.layout)) == buffer_bytes(sweep, target.layout)
    assert measured.write_boxes == sweep.writes.count
    check_written_once(sink)
    target.commit()
    assert np.array_equal(load(View.whole(target), Box.whole(wanted.shape)), wanted)


def check_run(plan: Plan, problem: Problem, view: View, target: Store, wanted: np.ndarray, folder: Path) -> None:
    """The threaded engine moves what was predicted of every pass, within the memory that was predicted."""
    with ScratchFolder(plan, str(folder)) as scratch:
        measured = execute_plan(plan, view, target, scratch)
    predicted = estimate_passes(plan, problem)
    for number, (seen, said) in enumerate(zip(measured, predicted, strict=True)):
        assert (seen.source, seen.target) == (said.source, said.target), number
        assert seen.peak_bytes <= said.peak_bytes, number
        assert seen.tasks == plan.passes[number].tasks.count, number
        assert seen.write_boxes == plan.passes[number].writes.count, number
    target.commit()
    assert np.array_equal(load(View.whole(target), Box.whole(wanted.shape)), wanted)


def check_written_once(medium: RecordingMedium) -> None:
    """No byte of any file was written twice."""
    written = defaultdict(list)
    for opening in medium.openings:
        if opening.writing:
            written[opening.key] += opening.ranges
    for ranges in written.values():
        assert all(stop <= start for (_, stop), (start, _) in pairwise(sorted(ranges)))


def find_journal(target: str) -> Journal | None:
    """The journal of the unfinished run that makes a target."""
    return Journal.open(FileLog.find(f"{Staging(target).folder}/journal"))
