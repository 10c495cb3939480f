"""Effort: how many candidates a search may price, in proportion to the run that it is for.

A search that takes longer than it can save is no gain, so it is sized for a share of the predicted run ::

    candidates = CANDIDATES_PER_SECOND · max(0.1 s, predicted seconds / 20), at most MAX_CANDIDATES

The limit is a count, not a time: the same problem has the same plan on every machine, however busy it is. A candidate
is one pass whose memory is counted exactly. Other work is counted by what it takes in comparison.
"""

from __future__ import annotations

from math import inf

#: Candidates that are priced in a second of processor time, about: in the searches of 200 random problems of the tests,
#: one took 70 µs on two busy cores. The weights below are from the same measurement.
CANDIDATES_PER_SECOND = 12_000
#: A search is sized for this share of the predicted run, but at least for this many seconds.
RUN_SHARE, LEAST_SECONDS = 20, 0.1
#: The most candidates, for runs of any length.
MAX_CANDIDATES = 12_000
#: Combinations of an array of prices that take as long as one candidate.
COMBINATIONS = 150
#: Candidates that a point of an axis counts as, and a plan whose cost is estimated.
POINT, ESTIMATE = 2, 6
#: Candidates that the second proposal of a strategy counts as, if it searches and if it does not.
SECOND_SEARCH, SECOND_PROPOSAL = 800, 40


class Effort:
    """The candidates that may still be priced."""

    def __init__(self, candidates: int = MAX_CANDIDATES) -> None:
        self.left = candidates

    @classmethod
    def for_run(cls, seconds: float = inf) -> Effort:
        """The effort that a run is worth, by its predicted seconds."""
        return cls(int(min(CANDIDATES_PER_SECOND * max(LEAST_SECONDS, seconds / RUN_SHARE), MAX_CANDIDATES)))

    @property
    def combinations(self) -> int:
        """Combinations that may still be priced as arrays; at least those of one candidate."""
        return max(self.left, 1) * COMBINATIONS

    def spend(self, candidates: int = 1) -> None:
        """Count candidates."""
        self.left -= candidates

    def spend_combinations(self, combinations: int) -> None:
        """Count combinations of an array of prices."""
        self.left -= -(-combinations // COMBINATIONS)

    def allows(self, candidates: int = 1) -> bool:
        """Whether that many candidates are left; if so, they are counted."""
        if self.left < candidates:
            return False
        self.left -= candidates
        return True
