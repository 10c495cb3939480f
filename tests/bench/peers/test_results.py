"""Results: medians, ratios, bars and failures."""

from __future__ import annotations

from pathlib import Path

from peer_jobs import BY_NAME, entry
from reblock.bench.peers import run as peers_run
from reblock.bench.peers.results import Entry, RaceResult, machine
from reblock.bench.peers.run import RaceRun


def test_medians_ratios_and_bars() -> None:
    result = RaceResult(
        BY_NAME["W1"], (entry("reblock", 1, 9, 2), entry("cp", 5, 4, 3), Entry("zarrs", skipped="not here"))
    )
    assert [result.ratio(one) for one in result.entries] == [0.5, 1.0, None]
    assert result.bar_met is True
    assert result.failures == 0
    assert RaceResult(BY_NAME["W1"], (entry("reblock", 2.5), entry("cp", 4))).bar_met is False
    assert RaceResult(BY_NAME["W1"], (entry("reblock", 2.5), entry("zarrs", 9))).bar_met is None
    document = result.to_json()
    assert document["contenders"][0]["median_seconds"] == 2
    assert document["contenders"][2]["skipped"] == "not here"
    text = result.to_table().to_text()
    assert "zarrs skipped: not here" in text
    assert "at most 0.6 × the time of cp" in text


def test_the_best_reference_counts() -> None:
    result = RaceResult(BY_NAME["W3"], (entry("reblock", 2), entry("zarrs", 5), entry("tensorstore", 3)))
    assert result.reference_seconds == 3
    assert result.bar_met is False


def test_size_is_part_of_the_bar() -> None:
    def met(size: int) -> bool | None:
        return RaceResult(BY_NAME["W4"], (entry("reblock", 1, size=size), entry("h5py", 9))).bar_met

    assert (met(105), met(106)) == (True, False)
    assert RaceResult(BY_NAME["W4"], (entry("reblock", 1), entry("nccopy", 9))).bar_met is None


def test_the_physical_limit_also_meets_a_bar() -> None:
    def result(seconds: float) -> RaceResult:
        limit = Entry("limit", (RaceRun(9.0), RaceRun(4.0, note="codecs 4.00 s")))
        return RaceResult(BY_NAME["tiff-zarr"], (entry("reblock", seconds), entry("tifffile", 6), limit))

    assert [result(seconds).bar_met for seconds in (2.9, 4.6, 4.7)] == [True, True, False]
    assert result(5).over_limit == 1.25
    assert result(5).failures == 0
    assert "reblock takes 1.25 × the physical limit: codecs 4.00 s" in result(5).to_table().to_text()
    assert result(5).to_json()["over_limit"] == 1.25
    assert RaceResult(BY_NAME["W1"], (entry("reblock", 1), entry("cp", 9))).over_limit is None


def test_a_wrong_contender_has_no_time() -> None:
    result = RaceResult(BY_NAME["W1"], (entry("reblock", 1, correct=False), entry("cp", 5)))
    assert (result.failures, result.bar_met, result.entries[0].seconds) == (1, False, None)
    assert "reblock failed: wrong" in result.to_table().to_text()


def test_a_peer_may_give_up_and_we_may_not() -> None:
    gave_up = (RaceRun(failed="needs more memory"),)
    theirs = RaceResult(BY_NAME["W1"], (entry("reblock", 1), entry("cp", 5), Entry("cubed", gave_up)))
    assert (theirs.failures, theirs.bar_met, theirs.entries[2].correct) == (0, True, None)
    assert "cubed failed: needs more memory" in theirs.to_table().to_text()
    ours = RaceResult(BY_NAME["W1"], (Entry("reblock", gave_up), entry("cp", 5)))
    assert (ours.failures, ours.bar_met) == (1, False)


def test_the_machine_is_named(tmp_path: Path) -> None:
    told = machine(str(tmp_path))
    assert told["cores"] == len(peers_run.cores()) <= 2
    assert told["memory_bytes"] > 1 << 28
    assert told["processor"]
    assert told["file_system"]
