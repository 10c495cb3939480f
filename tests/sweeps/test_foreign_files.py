"""Files that nobody here wrote, against the reading of their own libraries: no wrong value, no signal, no lost note.

The full sweep takes what other projects test themselves with, out of their source distributions. It is in
`make test-faults`, and is skipped where they cannot be fetched. The sample takes what is installed with h5py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from sweeps import foreign
from sweeps.sdists import unpacked

#: Distributions with HDF5 files, and about how many datasets they must have for the sweep to mean something.
DISTRIBUTIONS = {"tables": 150, "pyfive": 1000, "h5py": 10, "netCDF4": 50}
#: A file and a dataset in it.
Job = tuple[str, str]
WORKER = (sys.executable, "-m", "sweeps.foreign")
#: What must not be.
BAD = ("wrong", "attributes", "traceback", "crash")


def results(jobs: list[Job], command: Sequence[str] = WORKER) -> Iterator[dict[str, Any]]:
    """What came of datasets, judged in another process; where it died is named, and the next goes on behind that."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    while jobs:
        done = subprocess.run(
            command, input=json.dumps(jobs), capture_output=True, text=True, check=False, env=environment
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        yield from (line for line in lines if "begin" not in line)
        if not done.returncode:
            return
        last = max((line["begin"] for line in lines if "begin" in line), default=0)
        (path, dataset), why = jobs[last], f"exit {done.returncode}: {done.stderr[-300:]}"
        yield {"path": path, "dataset": dataset, "result": "crash", "why": why}
        jobs = jobs[last + 1 :]


def sweep(jobs: Sequence[Job], lanes: int = 2) -> list[dict[str, Any]]:
    """What came of all datasets."""
    with ThreadPoolExecutor(lanes) as pool:
        found = pool.map(lambda lane: list(results(list(jobs[lane::lanes]))), range(lanes))
        return [one for results in found for one in results]


def check(found: Sequence[dict[str, Any]]) -> None:
    """Print what was refused and why, and fail for everything that is wrong."""
    count = len({(one["path"], one["dataset"]) for one in found})
    print(f"\n{count} datasets", dict(Counter(one["result"] for one in found)))
    reasons = Counter(reason(one) for one in found if one["result"] in ("refused", "unread", "large"))
    for why, times in reasons.most_common():
        print(f"{times:6} {why}")
    bad = [f"{one['result']}: {one['path']}::{one['dataset']} {one.get('target', '')}: {one['why']}" for one in found
           if one["result"] in BAD]  # fmt: skip
    assert not bad, "\n".join([f"{len(bad)} are wrong", *bad])


def reason(one: dict[str, Any]) -> str:
    """Why a dataset was refused, without its name and numbers."""
    text = one["why"].replace(f"{one['path']}::{one['dataset']}", "").replace(one["path"], "")
    text = re.sub(r"\[\(.*(\)\]|characters\))|\{'names.*\}|dtype\(.*\)", "TYPE", text)
    return f"{one['result']}: {re.sub(r'[0-9][0-9,.]*', 'N', text).strip(': ')[:150]}"


def hdf5_datasets(folder: Path) -> list[Job]:
    """All datasets of the HDF5 files below a folder that h5py can open."""
    jobs: list[Job] = []
    for path in sorted(folder.rglob("*")):
        names: list[str] = []
        try:
            with h5py.File(path) as file:
                file.visititems(
                    lambda name, one, into=names: into.append(name) if isinstance(one, h5py.Dataset) else None
                )
        except (OSError, RuntimeError, ValueError):
            continue
        jobs += [(str(path), name) for name in names]
    return jobs


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_hdf5_files_of_other_projects(name: str) -> None:
    try:
        folder = unpacked(name)
    except OSError as error:
        pytest.skip(f"{error}; a copy can be put where REBLOCK_SWEEPS says")
    jobs = hdf5_datasets(folder)
    assert len(jobs) >= DISTRIBUTIONS[name]
    check(sweep(jobs))


def test_hdf5_files_that_come_with_h5py() -> None:
    found = sweep(hdf5_datasets(Path(h5py.__file__).parent))
    assert any(one["result"] == "equal" for one in found)
    check(found)


def test_a_process_that_dies_is_named_and_the_others_are_judged() -> None:
    program = """if True:
        import json, os, signal, sys
        for number, (path, name) in enumerate(json.load(sys.stdin)):
            print(json.dumps({"begin": number}), flush=True)
            if name == "bad":
                os.kill(os.getpid(), signal.SIGSEGV)
            print(json.dumps({"path": path, "dataset": name, "result": "equal", "why": ""}), flush=True)
    """
    jobs = [("f", name) for name in ("bad", "good", "bad", "fine")]
    found = list(results(jobs, (sys.executable, "-c", program)))
    assert [(one["dataset"], one["result"]) for one in found] == [
        ("bad", "crash"), ("good", "equal"), ("bad", "crash"), ("fine", "equal"),
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="2 are wrong"):
        check(found)


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    elements = np.arange(6, dtype="<i4")
    with h5py.File(tmp_path / "out.h5", "w") as file:
        file["data"] = elements
        file["data"].attrs.update({"a": 1, "b": "x", "c": [1.5]})
    where = str(tmp_path / "out.h5")
    _, same = foreign.library_reads(where, "data")
    assert foreign.compare(where, elements, same, ())["result"] == "equal"
    assert foreign.compare(where, elements + (elements == 3), same, ())["why"] == "1 of 6 elements differ"
    assert foreign.compare(where, elements.astype("i8"), same, ())["why"] == "type int32 for int64"
    for other in ({"a": 2}, {"a": 1.0}, {"b": b"x"}, {"c": 1.5}, {"d": 1}):
        assert foreign.compare(where, elements, {**same, **other}, ())["result"] == "attributes"
        (name,) = other
        assert (
            foreign.compare(where, elements, {**same, **other}, (f"attribute {name} is not kept",))["result"] == "equal"
        )


# ---------------------------------------------------------------- fixtures of numcodecs
def zarr_arrays(fixtures: Path, folder: Path) -> list[str]:
    """Zarr v2 arrays of one chunk, made of the encoded buffers and arrays that numcodecs tests itself with."""
    made = []
    for encoded in sorted(fixtures.glob("*/codec.*/encoded.*.dat")):
        array = encoded.parents[1] / f"array.{encoded.suffixes[0][1:]}.npy"
        config = encoded.parent / "config.json"
        if not array.exists():
            continue
        try:
            elements = np.load(array)
        except ValueError:  # objects
            continue
        path = folder / f"{encoded.parents[1].name}-{encoded.parent.name}-{encoded.suffixes[0][1:]}.zarr"
        path.mkdir()
        order = "C" if elements.flags.c_contiguous else "F"
        codec = json.loads(config.read_text())
        document = {
            "zarr_format": 2, "shape": elements.shape, "chunks": [max(n, 1) for n in elements.shape],
            "dtype": elements.dtype.str, "compressor": codec, "fill_value": None, "filters": None, "order": order,
        }  # fmt: skip
        (path / ".zarray").write_text(json.dumps(document))
        (path / (".".join("0" * elements.ndim) or "0")).write_bytes(encoded.read_bytes())
        made.append(str(path))
    return made


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_zarr_arrays_of_numcodecs(tmp_path: Path) -> None:
    try:
        folder = unpacked("numcodecs")
    except OSError as error:
        pytest.skip(f"{error}; a copy can be put where REBLOCK_SWEEPS says")
    (fixtures,) = folder.glob("*/fixture")
    arrays = zarr_arrays(fixtures, tmp_path)
    assert len(arrays) > 500
    check(sweep([(path, "") for path in arrays]))
