"""`reblock demo`: make a sample, repartition it, verify it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from reblock.cli.interrupt import stoppable
from reblock.cli.options import as_json as json_option
from reblock.cli.output import emit
from reblock.cli.progress import moved_bytes, progress
from reblock.errors import DiskError, UsageError
from reblock.units import format_size

_SHAPE = (192, 176, 160)
_MEMORY = "16MiB"


@dataclass(frozen=True)
class _Leg:
    """One repartition of the demo."""

    source: str
    """File name of the array it reads."""
    target: str
    """File name of the array it makes."""
    chunks: str
    """The target's chunks."""
    says: str
    """The text that introduces it."""
    view: dict[str, Any] = field(default_factory=dict)
    """Region or transpose, as for `verify`."""

    def words(self, verb: str) -> str:
        """The command line that does the same."""
        view = "".join(f" --{name} {value}" for name, value in self.view.items())
        made = f" --chunks {self.chunks} --memory {_MEMORY}" if verb != "verify" else ""
        return f"$ reblock {verb} {self.source} {self.target}{made}{view}"


_LEGS = (
    _Leg(
        "sample.npy",
        "sample.zarr",
        "64,64,64",
        "1. From one flat file to Zarr chunks. The plan, and what it was chosen from:",
    ),
    _Leg(
        "sample.zarr",
        "sample.h5",
        "24,-1,128",
        "2. On to HDF5, with the axes reversed on the way:",
        {"transpose": "2,1,0"},
    ),
)

_NEXT = """\
Try next:
  reblock plan YOUR_ARRAY new.zarr --chunks 128,128,128 --memory 1GiB   see what it would cost
  reblock run  YOUR_ARRAY new.zarr --chunks 128,128,128 --memory 1GiB   do it
  reblock demo --keep DIR                                               keep the files of this demo
  reblock --help                                                        list all commands"""


@click.command(short_help="Make a sample, repartition it, verify it: start here.")
@click.option("--keep", metavar="DIR", help="Make the files in this new or empty folder, and keep them.")
@json_option
def command(keep: str | None, as_json: bool) -> int:
    """Make a sample array, repartition it twice, verify it, and print the predicted cost beside the measured one."""
    say = (lambda _: None) if as_json else emit
    documents = []
    with _folder(keep) as folder:
        size = _make_sample(os.path.join(folder, _LEGS[0].source))
        shape = " × ".join(map(str, _SHAPE))
        say(f"sample.npy: {shape} float32 elements, {format_size(size)}, a smooth field and noise.")
        say(f"Everything below stays within a memory budget of {_MEMORY}.\n")
        for leg in _LEGS:
            say(leg.says)
            documents.append(_travel(leg, folder, say))
    equal = all(document["verify"]["equal"] for document in documents)
    say(f"The files are in {keep}.\n" if keep else "The files of this demo have been removed.\n")
    emit({"equal": equal, "runs": documents} if as_json else _NEXT)
    return 0 if equal else 1


def _travel(leg: _Leg, folder: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Plan, run and verify one leg."""
    from reblock import api
    from reblock.render import text

    source, target = os.path.join(folder, leg.source), os.path.join(folder, leg.target)
    job = api.plan_array(source, target, chunks=leg.chunks, memory=_MEMORY, **leg.view)
    say(f"\n{_indented(text.brief(job.decision) if leg is _LEGS[0] else text.headline(job.decision))}")
    with progress(leg.target, moved_bytes(job.cost)) as tell, stoppable() as cancelled:
        report = api.run(job, progress=tell, cancelled=cancelled)
    if cancelled():
        raise KeyboardInterrupt
    shown = text.report(report, job.decision).replace(target, leg.target)
    say(f"\n{leg.words('run')}\n{_indented(shown)}")
    verdict = api.verify(source, target, **leg.view)
    shown = text.verdict(leg.source, leg.target, verdict.to_json())
    say(f"\n{leg.words('verify')}\n{_indented(shown)}\n")
    return {**job.to_json(every_strategy=False), **report.to_json(), "verify": verdict.to_json()}


def _indented(shown: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in shown.splitlines())


def _make_sample(path: str) -> int:
    """Save a smooth 3-D field with noise, always the same; returns its size in bytes."""
    import numpy as np

    x, y, z = np.ogrid[tuple(slice(0, 1, complex(0, n)) for n in _SHAPE)]
    field = (np.sin(9 * x) * np.cos(7 * y) + z).astype(np.float32)
    field += np.random.default_rng(0).normal(scale=0.01, size=_SHAPE[1:]).astype(np.float32)
    np.save(path, field)
    return int(field.nbytes)


@contextmanager
def _folder(keep: str | None) -> Iterator[str]:
    """The folder of the demo's files; a failed demo leaves none."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="reblock-demo-") as folder:
            yield folder
        return
    made = not os.path.lexists(keep)
    try:
        os.makedirs(keep, exist_ok=True)
        found = os.listdir(keep)
    except OSError as error:
        raise DiskError.wrap(error, doing="making the folder", path=keep) from error
    if found:
        raise UsageError(f"{keep} is not empty: the demo keeps its files in a new or empty folder")
    try:
        yield keep
    except BaseException:
        shutil.rmtree(keep, ignore_errors=True)
        if not made:
            os.makedirs(keep, exist_ok=True)
        raise
