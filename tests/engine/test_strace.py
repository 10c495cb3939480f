"""The kernel is the judge: system calls on real files are the opens and runs that were predicted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import reblock
from tracing import STRACE, traces

CALL = re.compile(r"^(openat|pread64|preadv2?|pwrite64|pwritev2?|close)\((.*)\) = (-?\d+)(<(.*)>)?")


pytestmark = traces


def traced(tmp_path: Path, *arguments: str) -> tuple[dict, list[str]]:
    """Run the command under strace; its JSON and the calls of the engine's threads, thread by thread."""
    command = [sys.executable, "-m", "reblock", "run", *arguments, "--json"]
    log = tmp_path / "trace" / "log"
    log.parent.mkdir()
    calls = "trace=openat,pread64,pwrite64,preadv,preadv2,pwritev,pwritev2,close"
    tracer = [STRACE, "-ff", "-y", "-qq", "-e", calls, "-o", log]
    done = subprocess.run([*tracer, *command], capture_output=True, check=True)
    files = sorted(log.parent.iterdir(), key=lambda p: int(p.suffix[1:]))
    lines = [line for file in files[1:] for line in file.read_text().splitlines()]
    return json.loads(done.stdout), lines


def count(lines: list[str], folder: Path, header: int) -> dict[str, Counter]:
    """Opens, contiguous runs and bytes of each direction below a folder."""
    found: dict[str, Counter] = {"read": Counter(), "write": Counter()}
    ends: dict[str, int] = {}
    for line in lines:
        match = CALL.match(line)
        if not match or str(folder) not in line or "/journal" in line or int(match[3]) < 0:
            continue
        call, text = match[1], match[2]
        if call == "openat":
            side = "write" if "O_WRONLY" in text else "read"
            found[side]["opens"] += 1
            ends.pop(f"{match[3]}", None)
        elif call == "close":
            ends.pop(text.partition("<")[0], None)
        else:
            side = "read" if call.startswith("pread") else "write"
            number = text.partition("<")[0]
            flags = "(?:, [^,]+)" if call.endswith("2") else ""
            start, length = int(re.search(rf", (\d+){flags}$", text)[1]), int(match[3])
            begin, stop = max(start, header), start + length
            found[side]["runs"] += ends.get(number) != start
            found[side]["bytes"] += stop - begin
            ends[number] = stop
    return found


@pytest.mark.parametrize("kind", ["blocks", "zarr"])
@pytest.mark.parametrize("memory", ["60KB", "1MiB"])
def test_calls_are_those_predicted(kind: str, memory: str, tmp_path: Path) -> None:
    array = np.arange(30 * 28 * 26, dtype="<u2").reshape(30, 28, 26)
    np.save(tmp_path / "seed.npy", array)
    suffix = {"blocks": "/", "zarr": ".zarr"}[kind]
    source, target = f"{tmp_path}/source{suffix}", f"{tmp_path}/target{suffix}"
    reblock.repartition(tmp_path / "seed.npy", source, chunks=(7, 28, 9))
    report, lines = traced(tmp_path, source, target, "--chunks", "15,6,13", "--memory", memory, "--objective", "bytes")
    header = 128 if kind == "blocks" else 0
    (one,) = report["passes"]
    reads = count(lines, tmp_path / f"source{suffix}".rstrip("/"), header)["read"]
    writes = count(lines, tmp_path / ".target", header)["write"] or count(lines, tmp_path, header)["write"]
    assert dict(reads) == {key: one["source"][key] for key in ("opens", "runs", "bytes")}
    assert dict(writes) == {key: one["target"][key] for key in ("opens", "runs", "bytes")}
    assert reblock.verify(tmp_path / "seed.npy", target).equal
