"""Devices of a job: a preset, a file, or `auto`, which uses the measurements of earlier runs.

::

    plan   device of a path → its samples, else the nvme preset → unknown codecs are tried → Device
    run    measured passes → samples of the devices, the codecs and the cores → runs.experience
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reblock.api.machine import Load, cores
from reblock.api.trial import cast, excerpt, made_up, try_encoding
from reblock.cost import PRESETS
from reblock.cost.learn import (
    MACHINE,
    SCATTER,
    Known,
    Observation,
    coding,
    learn_devices,
    learn_work,
    learned_device,
)
from reblock.engine import Measured, View, native
from reblock.errors import UsageError
from reblock.model import Device, Layout, Schema
from reblock.planner import Decision
from reblock.render.columns import plain
from reblock.runs.experience import RUNS, Experience, Sample, is_on, keep, recall
from reblock.storage.location import Location
from reblock.storage.media.mounts import device_name
from reblock.storage.media.object_url import is_object
from reblock.units import format_size

#: The device that uses measurements.
AUTO_DEVICE = "auto"
#: The presets that `auto` uses without measurements: for disks, and for object stores.
BASE, REMOTE_BASE = "nvme", "s3"
#: Speed of scattering without the compiled loop, divided by the speed with it: chunks of 64 KiB, two cores.
WITHOUT_LOOP = 0.15


#: The name of a preset, the path of a file, `auto`, or a device itself.
Asked = str | Device
#: Trials of codecs, by name.
Tried = dict[str, list[Sample]]


@dataclass(frozen=True)
class Devices:
    """The devices that a job is planned for, and what is needed to learn from its run."""

    source: Device
    """Device of the source."""
    target: Device | None
    """Device of the target; None = the same."""
    scratch: Device | None
    """Device of intermediate arrays; None = the target's."""
    layouts: tuple[Layout, Layout]
    """Source and target, with the ratio of stored bytes where it is known."""
    subjects: tuple[str, str] | None = None
    """Names of the devices of source and target in the experience; None = the run's measurements are not kept."""
    trials: tuple[Sample, ...] = ()
    """Results of codec trials."""

    def leave(self, decision: Decision, measured: Sequence[Measured], before: Load | None) -> None:
        """Keep a run's measurements for later plans, unless other processes used the cores meanwhile."""
        # A run that followed another plan, or found its work done, did not measure what was predicted.
        if self.subjects is None or len(measured) != len(decision.sweeps) or not measured:
            return
        if not (before and before.crowded(Load.now())):
            keep([*self.trials, *learned_samples(self.subjects, decision, measured)])


def find_device(device: Asked) -> Device:
    """The device given by a preset, a file, or directly; `auto` becomes the default preset."""
    if isinstance(device, Device):
        return device
    if device in PRESETS or device == AUTO_DEVICE:
        return PRESETS[BASE if device == AUTO_DEVICE else device]
    if not os.path.exists(device):
        known = ", ".join([AUTO_DEVICE, *PRESETS])
        raise UsageError(f"unknown device {device!r}: use {known} or a file from `reblock bench device`")
    try:
        with open(device, encoding="utf-8") as file:
            return Device.from_json(json.load(file))
    except (OSError, ValueError) as error:
        raise UsageError(f"device file {device}: {error}") from None


def find_devices(
    asked: tuple[Asked, Asked | None, Asked | None],
    view: View | None,
    location: Location | None,
    layouts: tuple[Layout, Layout],
    schema: Schema,
    memory_bytes: int,
    tried: Tried | None = None,
) -> Devices:
    """The devices of source, target and scratch; only a stored source has a device of its own.

    `auto` tries codecs that no run has measured, and that are not in `tried`, where it adds them.
    """
    place = None if location is None else location.path
    if view is None or AUTO_DEVICE not in asked or not is_on():
        return _presets(asked, view, place, layouts)
    found = _auto(view, place, layouts, schema, memory_bytes, {} if tried is None else tried)
    if asked in ((AUTO_DEVICE, None, None), (AUTO_DEVICE,) * 3):
        return found
    source, target, scratch = (
        auto if one == AUTO_DEVICE else None if one is None else _priced(find_device(one))
        for one, auto in zip(asked, (found.source, found.target, found.target), strict=True)
    )
    # If one device was given, its errors must not be attributed to the other.
    return replace(found, source=source or found.source, target=target, scratch=scratch, subjects=None)


def _presets(
    asked: tuple[Asked, Asked | None, Asked | None],
    view: View | None,
    target: str | None,
    layouts: tuple[Layout, Layout],
) -> Devices:
    """The requested devices, without measurements; `auto` on an object store is the preset `s3`."""
    subjects = _subjects(view, target) if view is not None else ("", "")

    def found(one: Asked, subject: str) -> Device:
        return _priced(PRESETS[_base(subject)] if one == AUTO_DEVICE else find_device(one))

    first, second, scratch = asked
    if second is None and first == AUTO_DEVICE and _base(subjects[0]) != _base(subjects[1]):
        second = AUTO_DEVICE
    return Devices(
        found(first, subjects[0]),
        None if second is None else found(second, subjects[1]),
        None if scratch is None else found(scratch, subjects[1]),
        layouts,
    )


def known_device(path: str, layout: Layout) -> Device:
    """The device of an array as earlier runs measured it, or the preset if none has; nothing is tried or read."""
    subject = subject_of(path)
    base = _priced(PRESETS[_base(subject)])
    experience = recall() if is_on() else Experience()
    if not experience.runs(subject):
        return base

    def known(subject: str, quantity: str) -> float | None:
        return experience.value(subject, _scatter() if quantity == SCATTER else quantity)

    return learned_device(base, _sure(experience, subject, ()), subject, known, (layout, layout), cores())


def _priced(device: Device) -> Device:
    """The device with the scatter speed of this machine, which is lower without the compiled loop."""
    if native.library() is not None:
        return device
    return replace(device, memory_bytes_per_second=device.memory_bytes_per_second * WITHOUT_LOOP)


def _auto(
    view: View,
    target: str | None,
    layouts: tuple[Layout, Layout],
    schema: Schema,
    memory_bytes: int,
    tried: Tried,
) -> Devices:
    """Measured devices of a source and a target; codecs that no run has measured are tried."""
    subjects = _subjects(view, target)
    experience = recall()
    trials, words = _trials(view, layouts[1], schema, experience, memory_bytes, tried)
    before = {(one.subject, one.quantity): one.value for some in tried.values() for one in some}
    values = before | {(one.subject, one.quantity): one.value for one in trials}

    def known(subject: str, quantity: str) -> float | None:
        quantity = _scatter() if quantity == SCATTER else quantity
        return values.get((subject, quantity)) or experience.value(subject, quantity)

    stored = _with_part(layouts[0], known), _with_part(layouts[1], known)
    one, two = (
        learned_device(
            _priced(PRESETS[_base(subject)]), _sure(experience, subject, words), subject, known, stored, cores()
        )
        for subject in subjects
    )
    return Devices(one, two, two, stored, subjects, tuple(trials))


def _subjects(view: View, target: str | None) -> tuple[str, str]:
    """Names of the devices of two arrays; an array without one gets its own."""
    where = view.store.described_by[0] if view.store.described_by else view.store.location
    source = subject_of(where)
    return source, source if target is None else subject_of(target)


def subject_of(path: str) -> str:
    """The name under which the experience keeps the device of a path or URL."""
    scheme, mark, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if mark else device_name(path) or "unknown device"


def _base(subject: str) -> str:
    """Name of the preset for a device that no run has measured."""
    return REMOTE_BASE if is_object(subject) else BASE


def _scatter() -> str:
    """Name of the scatter speed, which differs without the compiled loop."""
    return SCATTER if native.library() is not None else f"{SCATTER} numpy"


def _sure(experience: Experience, subject: str, words: Sequence[str]) -> str:
    """The basis of a prediction, in words."""
    count = experience.runs(subject)
    said = f"{count} run{'s' if count > 1 else ''} on" if count else f"{_base(subject)} preset, nothing measured yet on"
    return plain("; ".join([f"auto: {said} {subject}", *words]))


def _with_part(layout: Layout, known: Known) -> Layout:
    """The layout with its ratio of stored bytes."""
    part = known(MACHINE, coding("part", layout.codec)) if layout.codec else None
    return replace(layout, stored_part=min(part, 1.0)) if part else layout


def _trials(
    view: View, layout: Layout, schema: Schema, experience: Experience, memory_bytes: int, tried: Tried
) -> tuple[list[Sample], list[str]]:
    """Trials of codecs that no run has measured, and a note on each."""
    source = view.layout
    names = {kind: coding(kind, one.codec) for kind, one in (("decode", source), ("encode", layout)) if one.encoded}
    wanted = [kind for kind, name in names.items() if name not in tried and experience.value(MACHINE, name) is None]
    tried.update({names[kind]: [] for kind in wanted})
    if not wanted:
        return [], []
    samples: list[Sample] = []
    words: list[str] = []
    little = excerpt(view.store, memory_bytes)
    if "decode" in wanted and little is not None and little.decoding is not None:
        rate, part = little.decoding.bytes_per_second, little.decoding.stored_part
        tried[names["decode"]] = _samples("decode", source.codec, rate, part)
        samples += tried[names["decode"]]
        words.append(f"{source.codec} tried on {format_size(little.decoding.bytes)}")
    if "encode" in wanted:
        before, after = view.store.layout.dtype, schema.dtype
        elements = made_up(after) if little is None else cast(little.elements, before, after)
        found = try_encoding(schema.codec, after, elements)
        if found is not None:
            rate, part = found.bytes_per_second, found.stored_part
            tried[names["encode"]] = _samples("encode", layout.codec, rate, part)
            samples += tried[names["encode"]]
            words.append(f"{layout.codec} tried on {format_size(found.bytes)}")
    return samples, words


def _samples(kind: str, codec: str, rate: float, part: float) -> list[Sample]:
    return [Sample(MACHINE, coding(kind, codec), rate), Sample(MACHINE, coding("part", codec), part)]


# ---------------------------------------------------------------- after a run
def learned_samples(subjects: tuple[str, str], decision: Decision, measured: Sequence[Measured]) -> Iterator[Sample]:
    """Measurements of the cores, and of the devices of source and target, from the passes of a run."""
    problem, plan = decision.problem, decision.plan
    first, scratch, last = problem.devices
    devices = [first, *(scratch for _ in plan.scratch), last]
    names = [subjects[0], *(subjects[1] for _ in plan.scratch), subjects[1]]
    learned: set[str] = set()
    sides = zip(plan.sides(problem.source, problem.target), measured, decision.sweeps, strict=True)
    for number, ((_, source, target), one, sweep) in enumerate(sides):
        if one.resumed_boxes or not one.seconds:
            continue
        seen = Observation(
            source,
            target,
            one.source,
            one.target,
            one.seconds,
            one.processor_seconds,
            one.times.decode,
            one.times.encode,
            one.times.read,
            one.times.write,
            sweep.seconds / sweep.steady_seconds if sweep.steady_seconds else 1.0,
        )
        for quantity, value in learn_work(seen, devices[number + 1], cores()):
            yield Sample(MACHINE, _scatter() if quantity == SCATTER else quantity, value)
        for side, quantity, value in learn_devices(seen, (devices[number], devices[number + 1]), cores()):
            if quantity:
                learned.add(names[number + side])
                yield Sample(names[number + side], quantity, value)
    for name in sorted(learned):
        yield Sample(name, RUNS, 1.0)
