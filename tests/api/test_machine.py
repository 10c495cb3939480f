"""Budgets as a part of the machine's memory, and beyond it."""

from __future__ import annotations

from pathlib import Path

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
