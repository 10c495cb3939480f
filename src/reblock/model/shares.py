"""Shares: how many tasks a worker gets at a time, if several processes carry out a plan."""

from __future__ import annotations

#: The most shares of a plan: schedulers remember each of them.
MAX_SHARES = 2000
#: Shares for each worker, so that a slow one does not keep the others waiting; at least the first number, because each
#: share begins by reading and ends by writing, and nothing overlaps with that.
SHARES_PER_WORKER = 2, 4
#: Seconds that a share is to take at least, where there are enough tasks; those of a short pass may take half of that.
LEAST_SECONDS = 1.0


def share_size(tasks: int, workers: int, seconds: float, passes: int = 1) -> int:
    """Tasks in each share of a pass, from the seconds that it would take one worker and the passes of the plan."""
    most = max(MAX_SHARES // passes, 1)
    least, enough = SHARES_PER_WORKER
    each = max(least, min(enough, int(2 * seconds / LEAST_SECONDS / workers)))
    wanted = max(int(min(seconds / LEAST_SECONDS, most)), each * workers)
    return max(-(-tasks // min(wanted, most)), 1)
