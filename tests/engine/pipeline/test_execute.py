"""What is predicted is what happens: opens, runs, bytes, held elements, on real files, for every strategy."""

from __future__ import annotations

import gc
import random
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import check_pass, cuts, fill, make
from reblock.cost import PRESETS, memory
from reblock.cost.estimate import estimate_passes
from reblock.engine import View, execute, execute_in_order, load, native
from reblock.engine.memory.budget import MemoryBudget
from reblock.errors import InfeasibleError, Refused
from reblock.geometry import Axis, Box, Grid
from reblock.model import Problem, Store
from reblock.passes.family import fit, one_pass
from reblock.planner import choose
from reblock.planner.tune import fill_execution
from reblock.storage.media.registry import medium_of
from reblock.strategies import strategies
from reblock.testing.recording import RecordingMedium

FORMATS = ("blocks", "rawblocks", "zarr", "zarr2")


def without_loop(view: View, target: Store, monkeypatch: pytest.MonkeyPatch) -> tuple[View, Store]:
    """Source and target through a medium that records, and the engine without its compiled loop."""
    monkeypatch.setattr(native, "library", lambda: None)
    source, sink = RecordingMedium(view.store.medium), RecordingMedium(target.medium)
    return replace(view, store=source.of(view.store)), sink.of(target)


def random_case(rng: random.Random, folder: Path | str, format_name: str):
    ndim = rng.choice([1, 2, 2, 3, 3, 4])
    shape = tuple(rng.randint(1, (60, 24, 11, 6)[ndim - 1]) for _ in range(ndim))
    regular = format_name.startswith("zarr")
    order = tuple(range(ndim))
    if format_name in ("rawblocks", "zarr") and rng.random() < 0.3:
        order = tuple(rng.sample(order, ndim))
    source = make(folder, "source", format_name, shape, tuple(cuts(rng, n, regular=regular) for n in shape), order)
    array = np.arange(np.prod(shape), dtype="u2").reshape(shape)
    fill(source, array)
    region = Box.whole(shape)
    axes = tuple(range(ndim))
    if rng.random() < 0.5:
        starts = tuple(rng.randint(0, n - 1) for n in shape)
        region = Box(starts, tuple(rng.randint(a + 1, n) for a, n in zip(starts, shape, strict=True)))
        axes = tuple(rng.sample(axes, ndim))
    view = View(source, region, axes)
    wanted = array[region.slices].transpose(axes)
    chunks = tuple(cuts(rng, n, regular=regular) for n in wanted.shape)
    return view, wanted, chunks


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("seed", range(6))
def test_every_strategy_costs_what_was_predicted(format_name: str, seed: int, memory_folder: str) -> None:
    rng = random.Random(f"{format_name}{seed}")
    view, wanted, chunks = random_case(rng, memory_folder, format_name)
    served = 0
    for name in ["auto", *strategies()]:
        target = make(memory_folder, f"target-{name}", format_name, wanted.shape, chunks)
        biggest = wanted.nbytes * 4 + 4096
        problem = Problem(view.layout, target.layout, rng.randint(biggest // 6, biggest), PRESETS["nvme"])
        try:
            plan = choose(problem, strategy=name, objective=rng.choice(["time", "seeks", "bytes"])).plan
        except (Refused, InfeasibleError):
            continue
        if len(plan.passes) > 1:
            continue
        served += 1
        check_pass(plan, problem, view, target, wanted)
    assert served


@pytest.mark.parametrize("format_name", [*FORMATS, "npy", "hdf5"])
@pytest.mark.parametrize("seed", range(4))
def test_the_threaded_engine_does_the_same_within_its_budget(
    format_name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"threads{format_name}{seed}")
    view, wanted, chunks = random_case(rng, tmp_path, rng.choice(FORMATS))
    regular = tuple(c if isinstance(c, int) else max(c) for c in chunks)
    target = make(tmp_path, "target", format_name, wanted.shape, regular)
    problem = Problem(view.layout, target.layout, wanted.nbytes * 3 + 8192, PRESETS["nvme"])
    plan = choose(problem).plan
    if len(plan.passes) > 1:
        pytest.skip("the best plan has several passes")
    view, recorded = without_loop(view, target, monkeypatch)
    measured = execute(plan.passes[0], view, recorded)
    (predicted,) = estimate_passes(plan, problem)
    assert (measured.source, measured.target) == (predicted.source, predicted.target)
    assert measured.peak_bytes <= predicted.peak_bytes <= problem.memory_bytes
    target.commit()
    assert np.array_equal(load(View.whole(target), Box.whole(wanted.shape)), wanted)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("format_name", [*FORMATS, "hdf5"])
def test_slabs_do_the_same_in_less_memory(
    format_name: str, compiled: bool, tmp_path: Path, memory_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slabs of any size, in passes that hold more than one row of boxes: read in half boxes, written whole."""
    monkeypatch.setattr(memory, "SLAB_BYTES", 1)
    rng = random.Random(f"slabs{format_name}{compiled}")
    used = 0
    for number in range(12):
        # The compiled loop and HDF5 need files.
        folder = tmp_path / str(number) if compiled or format_name == "hdf5" else f"{memory_folder}/{number}"
        medium_of(str(folder)).make_folder(str(folder))
        view, wanted, chunks = random_case(rng, folder, rng.choice(FORMATS))
        regular = tuple(c if isinstance(c, int) else max(c) for c in chunks)
        target = make(folder, "target", format_name, wanted.shape, regular)
        problem = Problem(view.layout, target.layout, 1 << 30, PRESETS["nvme"])
        read = Grid(tuple(Axis.regular(n, rng.randint(1, max(n // 2, 1))) for n in wanted.shape))
        whole, order = Grid.whole(wanted.shape), tuple(rng.sample(range(wanted.ndim), wanted.ndim))
        objects = target.layout.objects.clipped()
        made = one_pass("slabs", problem, read=read, write=objects, tasks=whole, order=order)
        plan = fill_execution(fit(made, problem, frugal=True), problem)
        used += bool(plan.passes[0].execution.slab_axes)
        source, store = (view, target) if compiled else without_loop(view, target, monkeypatch)
        measured = execute(plan.passes[0], source, store)
        (predicted,) = estimate_passes(plan, problem)
        assert (measured.source, measured.target) == (predicted.source, predicted.target)
        assert measured.peak_bytes <= predicted.peak_bytes == plan.memory_bytes
        target.commit()
        assert np.array_equal(load(View.whole(target), Box.whole(wanted.shape)), wanted)
    assert used >= 2


def test_nothing_of_a_pass_stays_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next pass has the same budget: buffers must not wait for the collector of garbage."""
    made: list[weakref.ref[MemoryBudget]] = []

    class Watched(MemoryBudget):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(weakref.ref(self))

    monkeypatch.setattr("reblock.engine.memory.allocator.MemoryBudget", Watched)
    source = make(tmp_path, "source", "rawblocks", (20, 20), (4, 20))
    fill(source, np.arange(400, dtype="u2").reshape(20, 20))
    target = make(tmp_path, "target", "rawblocks", (20, 20), (20, 4))
    plan = choose(Problem(source.layout, target.layout, 1 << 20, PRESETS["nvme"])).plan
    gc.disable()
    try:
        execute(plan.passes[0], View.whole(source), target)
        assert [one() for one in made] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_pass_with_too_little_memory_says_so(compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns meet every row: with room for three of the five columns' boxes nothing will ever be complete."""
    source = make(tmp_path, "source", "rawblocks", (20, 20), (4, 20))
    fill(source, np.arange(400, dtype="u2").reshape(20, 20))
    target = make(tmp_path, "target", "rawblocks", (20, 20), (20, 4))
    problem = Problem(source.layout, target.layout, 1 << 20, PRESETS["nvme"])
    grids = {"read": source.layout.objects, "write": target.layout.objects, "tasks": Grid.whole((20, 20))}
    plan = fill_execution(fit(one_pass("by hand", problem, **grids), problem, frugal=True), problem)
    how = plan.passes[0].execution
    short = replace(plan.passes[0], execution=replace(how, buffer_bytes=how.buffer_bytes - 320))
    view, store = (View.whole(source), target) if compiled else without_loop(View.whole(source), target, monkeypatch)
    with pytest.raises(Refused, match=r"a buffer of 160 bytes does not fit into the 480 .* of which 480 are in use"):
        execute(short, view, store)


def test_an_axis_can_be_read_in_any_order(memory_folder: str) -> None:
    """The sweep's order changes what is held, and the prediction follows."""
    array = np.arange(12 * 10 * 8, dtype="u2").reshape(12, 10, 8)
    source = make(memory_folder, "source", "rawblocks", array.shape, (4, 4, 4))
    fill(source, array)
    target = make(memory_folder, "target", "rawblocks", array.shape, (6, 3, 5))
    problem = Problem(source.layout, target.layout, 1 << 20, PRESETS["nvme"])
    seen = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        plan = choose(problem, strategy="keep").plan
        read = Grid((Axis.regular(12, 4), Axis.regular(10, 4), Axis.regular(8, 4)))
        sweep = replace(plan.passes[0], read=read, order=order)
        moved = replace(plan, passes=(sweep,))
        (predicted,) = estimate_passes(moved, problem)
        measured = execute_in_order(sweep, View.whole(source), target)
        assert measured.held_elements * 2 == predicted.held_bytes
        seen.add(predicted.held_bytes)
    assert len(seen) > 1
