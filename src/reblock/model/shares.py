"""Shares: how many tasks a worker gets at a time, if several processes carry out a plan."""

from __future__ import annotations

#: The most shares of a plan: schedulers remember each of them.
MAX_SHARES = 2000
#: Shares for each worker, so that a slow one does not keep the others waiting.
SHARES_PER_WORKER = 4
#: Seconds that a share is to take at least, where there are enough tasks.
LEAST_SECONDS = 1.0


def share_size(tasks: int, workers: int, seconds: float, passes: int = 1) -> int:
    """Tasks in each share of a pass, from the seconds that it would take one worker and the passes of the plan."""
    most = max(MAX_SHARES // passes, 1)
    wanted = max(int(min(seconds / LEAST_SECONDS, most)), SHARES_PER_WORKER * workers)
    return max(-(-tasks // min(wanted, most)), 1)
