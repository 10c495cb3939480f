"""Budgets as a part of the machine's memory, and beyond it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.api import machine
from reblock.errors import UsageError


@pytest.fixture
def ten_gib(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(machine, "machine_bytes", lambda: 10 << 30)
    return 10 << 30


@pytest.mark.parametrize(("text", "part"), [("50%", 0.5), ("12.5 %", 0.125), ("100%", 1.0), (" 5% ", 0.05)])
def test_a_part_of_the_machine(ten_gib: int, text: str, part: float) -> None:
    assert machine.parse_memory(text) == int(ten_gib * part)


@pytest.mark.parametrize("text", ["%", "-5%", "x%", "5%%", "50 percent"])
def test_no_part_of_anything(ten_gib: int, text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the size"):
        machine.parse_memory(text)


def test_everybody_takes_it(ten_gib: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(60).reshape(6, 10))
    job = reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", chunks=3, memory="1%")
    assert job.decision.problem.memory_bytes == (10 << 30) // 100
    reblock.run(job)
    assert reblock.verify(tmp_path / "x.npy", tmp_path / "y.zarr", memory="1%").equal
    assert reblock.open(tmp_path / "x.npy", memory="1%").memory_bytes == (10 << 30) // 100
    assert reblock.info(tmp_path / "x.npy", memory="1%")["shape"] == [6, 10]


def test_more_than_there_is_gets_a_note(ten_gib: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(60).reshape(6, 10))
    says = "the memory budget of 11.0 GiB is more than the 10.0 GiB of this machine"
    job = reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", chunks=3, memory="11GiB")
    assert says in job.notes
    assert says in job.to_json()["notes"]
    assert says in " ".join(job.explain().split())
    assert says in reblock.run(job).notes
    assert not reblock.plan(tmp_path / "x.npy", tmp_path / "z.zarr", chunks=3, memory="10GiB").notes


def test_a_group_may_have_less_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = machine.machine_bytes()
    assert whole is not None
    assert whole > 1 << 20
    groups = tmp_path / "groups"
    for folder, limit in (("a/b", "max"), ("a", str(64 << 20)), ("", "max")):
        (groups / folder).mkdir(parents=True, exist_ok=True)
        (groups / folder / "memory.max").write_text(limit)
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    monkeypatch.setattr(machine, "_GROUPS", str(groups))
    monkeypatch.setattr(machine, "_OWN_GROUPS", str(tmp_path / "cgroup"))
    machine.machine_bytes.cache_clear()
    try:
        assert machine.machine_bytes() == 64 << 20
        (tmp_path / "cgroup").write_text("5:cpu,memory:/c\n0::/none\n")
        (groups / "memory" / "c").mkdir(parents=True)
        (groups / "memory" / "c" / "memory.limit_in_bytes").write_text(str(32 << 20))
        machine.machine_bytes.cache_clear()
        assert machine.machine_bytes() == 32 << 20
    finally:
        machine.machine_bytes.cache_clear()


# ---------------------------------------------------------------- limits
@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of 24 GiB without any limit; the folder stands for that of control groups."""
    groups = tmp_path / "groups"
    groups.mkdir()
    (tmp_path / "cgroup").write_text("0::/\n")
    monkeypatch.setattr(machine, "_GROUPS", str(groups))
    monkeypatch.setattr(machine, "_OWN_GROUPS", str(tmp_path / "cgroup"))
    monkeypatch.setattr(machine, "_physical_bytes", lambda: 24 << 30)
    for name in list(os.environ):
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    machine.machine_bytes.cache_clear()
    monkeypatch.setattr(machine, "machine_bytes", machine.machine_bytes.__wrapped__)
    return groups


MIB = 1 << 20


@pytest.mark.parametrize(
    ("variables", "limit", "name"),
    [
        ({}, None, ""),
        ({"MEM_PER_NODE": "4096"}, 4096, "SLURM_MEM_PER_NODE"),
        ({"MEM_PER_NODE": "0"}, None, ""),
        ({"MEM_PER_CPU": "100", "CPUS_ON_NODE": "8"}, 800, "SLURM_MEM_PER_CPU"),
        ({"MEM_PER_CPU": "100", "JOB_CPUS_PER_NODE": "4(x2),8"}, 800, "SLURM_MEM_PER_CPU"),
        ({"MEM_PER_CPU": "100", "CPUS_PER_TASK": "3"}, 300, "SLURM_MEM_PER_CPU"),
        ({"MEM_PER_CPU": "100"}, 100, "SLURM_MEM_PER_CPU"),
        ({"MEM_PER_NODE": "4096", "STEP_TASKS_PER_NODE": "4(x2)"}, 1024, "SLURM_MEM_PER_NODE"),
        ({"MEM_PER_NODE": "much"}, None, ""),
        ({"MEM_PER_NODE": "-1", "MEM_PER_CPU": "²"}, None, ""),
        ({"MEM_PER_NODE": ""}, None, ""),
        ({"MEM_PER_CPU": "100", "CPUS_ON_NODE": "4,x"}, 100, "SLURM_MEM_PER_CPU"),
    ],
)
def test_limits_of_slurm(
    free: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], limit: int | None, name: str
) -> None:
    for key, value in variables.items():
        monkeypatch.setenv(f"SLURM_{key}", value)
    found = machine.memory_limit()
    assert found == (None if limit is None else (limit * MIB, name))
    assert machine.default_memory() == min(1024 * MIB, (limit or 10**6) * MIB // 2)
    assert machine.default_memory(4) == min(1024 * MIB, (limit or 10**6) * MIB // 8)


@pytest.mark.parametrize(
    ("own", "files", "limit", "group"),
    [
        ("0::/\n", {"memory.max": "max\n"}, None, ""),
        ("0::/\n", {"memory.max": str(600 * MIB)}, 600, "/"),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": str(400 * MIB)}, 400, "/a"),
        ("0::/a/b\n", {"a/b/memory.max": str(100 * MIB), "a/memory.max": str(400 * MIB)}, 100, "/a/b"),
        ("0::/gone/b\n", {"memory.max": str(400 * MIB)}, 400, "/"),
        ("4:memory:/c\n", {"memory/c/memory.limit_in_bytes": str(300 * MIB)}, 300, "/c"),
        ("4:cpu,memory:/c/d\n", {"memory/c/memory.limit_in_bytes": str(300 * MIB)}, 300, "/c"),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None, ""),
        ("3:cpu:/c\n", {"memory/c/memory.limit_in_bytes": str(300 * MIB)}, None, ""),
        ("0::/u\n", {"unified/u/memory.max": str(200 * MIB)}, 200, "/u"),
        ("0::/\n", {"memory.max": str(64 << 30)}, None, ""),
        ("0::/\n", {"memory.max": "nonsense"}, None, ""),
        ("nonsense", {}, None, ""),
    ],
)
def test_limits_of_control_groups(free: Path, own: str, files: dict[str, str], limit: int | None, group: str) -> None:
    (free.parent / "cgroup").write_text(own)
    for name, text in files.items():
        (free / name).parent.mkdir(parents=True, exist_ok=True)
        (free / name).write_text(text)
    found = machine.memory_limit()
    assert found == (None if limit is None else (limit * MIB, f"the control group {group}"))


def test_the_lowest_limit_counts(free: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (free / "memory.max").write_text(str(300 * MIB))
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "200")
    assert machine.memory_limit() == (200 * MIB, "SLURM_MEM_PER_NODE")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "500")
    assert machine.memory_limit() == (300 * MIB, "the control group /")
    assert machine.parse_memory("50%") == 150 * MIB


def test_a_plan_says_what_limits_it(free: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.arange(60).reshape(6, 10))

    def planned(**options: Any) -> Any:
        return reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", chunks=3, **options)

    job = planned()
    assert job.decision.problem.memory_bytes == 1 << 30
    assert job.notes == ()
    assert job.to_json()["problem"]["memory_limit_bytes"] is None
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "512")
    job, says = planned(), "memory: 256 MiB by default, half of the 512 MiB that SLURM_MEM_PER_NODE allows"
    assert job.decision.problem.memory_bytes == 256 * MIB
    assert says in job.notes
    assert says in job.to_json()["notes"]
    assert job.to_json()["problem"]["memory_limit_bytes"] == 512 * MIB
    assert job.to_json()["problem"]["memory_limit_source"] == "SLURM_MEM_PER_NODE"
    assert says in " ".join(job.explain().split())
    many = planned(workers=4)
    assert many.decision.problem.memory_bytes == 64 * MIB
    assert any("64.0 MiB for each of 4 workers by default" in note and "divided by 4" in note for note in many.notes)
    assert planned(memory="100MiB").notes == ()
    # A warning, not a refusal.
    says = "the memory budget of 600 MiB is more than the 512 MiB that SLURM_MEM_PER_NODE allows"
    assert says in reblock.run(planned(memory="600MiB")).notes
    assert any("for each of 8 workers is more than" in note for note in planned(memory="100MiB", workers=8).notes)
