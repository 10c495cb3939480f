"""What is predicted is what happens: opens, runs, bytes, held elements, on real files, for every strategy."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reblock.cost import PRESETS
from reblock.cost.estimate import estimate_passes
from reblock.cost.memory import buffer_bytes
from reblock.engine import View, execute, execute_in_order
from reblock.errors import Refused
from reblock.geometry import Axis, Box, Grid
from reblock.model import Plan, Problem, Schema, Store
from reblock.planner import choose
from reblock.storage import registry
from reblock.strategies import strategies
from reblock.testing.recording import RecordingDisk

FORMATS = ("blocks", "rawblocks", "zarr", "zarr2")


def cuts(rng: random.Random, length: int, *, regular: bool) -> int | tuple[int, ...]:
    if regular or rng.random() < 0.7 or length < 2:
        return rng.randint(1, length)
    inner = sorted(rng.sample(range(1, length), rng.randint(1, min(length - 1, 3))))
    return tuple(b - a for a, b in zip([0, *inner], [*inner, length], strict=True))


def make(folder: Path, name: str, format_name: str, shape: tuple[int, ...], chunks, order=()) -> Store:
    kind = registry.get(format_name)
    schema = kind.adapt(Schema(shape, np.dtype("u2"), chunks, order=order), {"chunks"})
    return kind.create(str(folder / name), "", schema)


def fill(store: Store, array: np.ndarray) -> None:
    """Write an array into a fresh store by the simplest pass there is."""
    objects = store.layout.objects.clipped()
    whole = Grid.whole(array.shape)
    source = Path(store.location).parent / f"seed-{Path(store.location).name}.npy"
    np.save(source, array)
    view = View.whole(registry.open(str(source)))
    problem = Problem(view.layout, store.layout, 1 << 30, PRESETS["nvme"])
    plan = choose(problem, strategy="naive").plan
    execute_in_order(replace(plan.passes[0], read=objects, tasks=whole), view, store)
    store.commit()


def random_case(rng: random.Random, folder: Path, format_name: str):
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


def header(store: Store) -> int:
    return len(store.preamble((0,) * store.layout.ndim))


def check_pass(plan: Plan, problem: Problem, view: View, target: Store, wanted: np.ndarray) -> None:
    (sweep,) = plan.passes
    (predicted,) = estimate_passes(plan, problem)
    disk = RecordingDisk()
    measured = execute_in_order(sweep, view, target, disk=disk)
    reads, writes = predicted.source, predicted.target
    assert disk.counts(writing=False, skip=header(view.store)) == (reads.opens, reads.runs, reads.bytes)
    assert disk.counts(writing=True, skip=header(target)) == (writes.opens, writes.runs, writes.bytes)
    assert (measured.source, measured.target) == (reads, writes)
    assert measured.held_elements * target.layout.itemsize == predicted.held_bytes
    assert measured.peak_bytes == buffer_bytes(sweep, target.layout)
    assert measured.write_boxes == sweep.writes.count
    target.commit()
    from reblock.engine import load

    assert np.array_equal(load(View.whole(target), Box.whole(wanted.shape)), wanted)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("seed", range(6))
def test_every_strategy_costs_what_was_predicted(format_name: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{format_name}{seed}")
    view, wanted, chunks = random_case(rng, tmp_path, format_name)
    served = 0
    for name in ["auto", *strategies()]:
        target = make(tmp_path, f"target-{name}", format_name, wanted.shape, chunks)
        biggest = wanted.nbytes * 4 + 4096
        problem = Problem(view.layout, target.layout, rng.randint(biggest // 6, biggest), PRESETS["nvme"])
        try:
            plan = choose(problem, strategy=name, objective=rng.choice(["time", "seeks", "bytes"])).plan
        except Refused:
            continue
        except Exception as error:
            assert type(error).__name__ == "InfeasibleError"
            continue
        if len(plan.passes) > 1:
            continue
        served += 1
        check_pass(plan, problem, view, target, wanted)
    assert served


@pytest.mark.parametrize("format_name", [*FORMATS, "npy", "hdf5"])
@pytest.mark.parametrize("seed", range(4))
def test_the_threaded_engine_does_the_same_within_its_budget(format_name: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"threads{format_name}{seed}")
    view, wanted, chunks = random_case(rng, tmp_path, rng.choice(FORMATS))
    target = make(tmp_path, "target", format_name, wanted.shape, tuple(c if isinstance(c, int) else max(c) for c in chunks))
    problem = Problem(view.layout, target.layout, wanted.nbytes * 3 + 8192, PRESETS["nvme"])
    plan = choose(problem).plan
    if len(plan.passes) > 1:
        pytest.skip("the best plan has several passes")
    disk = RecordingDisk()
    measured = execute(plan.passes[0], view, target, memory_bytes=plan.memory_bytes, depth=plan.depth, disk=disk)
    (predicted,) = estimate_passes(plan, problem)
    assert (measured.source, measured.target) == (predicted.source, predicted.target)
    assert measured.peak_bytes <= predicted.peak_bytes <= problem.memory_bytes
    target.commit()
    from reblock.engine import load

    assert np.array_equal(load(View.whole(target), Box.whole(wanted.shape)), wanted)


def test_an_axis_can_be_read_in_any_order(tmp_path: Path) -> None:
    """The sweep's order changes what is held, and the prediction follows."""
    array = np.arange(12 * 10 * 8, dtype="u2").reshape(12, 10, 8)
    source = make(tmp_path, "source", "rawblocks", array.shape, (4, 4, 4))
    fill(source, array)
    target = make(tmp_path, "target", "rawblocks", array.shape, (6, 3, 5))
    problem = Problem(source.layout, target.layout, 1 << 20, PRESETS["nvme"])
    seen = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        plan = choose(problem, strategy="keep").plan
        sweep = replace(plan.passes[0], read=Grid((Axis.regular(12, 4), Axis.regular(10, 4), Axis.regular(8, 4))), order=order)
        moved = replace(plan, passes=(sweep,))
        (predicted,) = estimate_passes(moved, problem)
        measured = execute_in_order(sweep, View.whole(source), target)
        assert measured.held_elements * 2 == predicted.held_bytes
        seen.add(predicted.held_bytes)
    assert len(seen) > 1
