"""The host: how much slower workers are if they share the cores of one machine.

Each worker has some requests under way. A request waits, and in between it needs the cores: of the engine, and of the
store if that is on the same machine. With more workers, requests queue for the cores ::

    1 worker     wait ░░░░░░░░░░░░ cores ██ wait ░░░░░░░░░░░░ cores ██
    4 workers    wait ░░░░░░░░░░░░ queue ▒▒▒▒ cores ██ wait ░░░░░░░░░░░░ queue ▒▒▒ cores ██

That is a closed network of queues. Its throughput follows exactly from that with one request less: mean value analysis
(Reiser & Lavenberg, 1980). A station of c cores counts as one of c times the speed, and a wait for the rest (Seidmann,
Schweitzer & Shalev-Oren, 1987). There is nothing to fit: all numbers are those of one worker alone.
"""

from __future__ import annotations


def speeds(workers: int, requests: int, busy: float, cores: int) -> list[float]:
    """The speed of each worker if 1, 2, … of them share a host, compared with one alone.

    One worker alone has so many `requests` under way, and keeps the host's cores `busy` for this part of its time.
    """
    busy, requests, cores = min(max(busy, 0.0), 1.0), max(requests, 1), max(cores, 1)
    if not busy:
        return [1.0] * workers
    # In units of the time that a request takes one worker alone, waits included.
    demand = busy / requests
    waits = 1.0 - demand * cores
    for _ in range(50):
        # A worker's own requests queue as well, and its time includes that.
        queued = _throughputs(requests, demand, max(waits, 0.0) + demand * (cores - 1))[-1]
        waits = max(waits + (1.0 - requests / queued), 0.0)
    found = _throughputs(workers * requests, demand, waits + demand * (cores - 1))
    alone = found[requests - 1]
    return [min(found[count * requests - 1] / (count * alone), 1.0) for count in range(1, workers + 1)]


def _throughputs(most: int, demand: float, elsewhere: float) -> list[float]:
    """Requests per unit of time with 1, 2, … of them under way, each `demand` at the station and then `elsewhere`."""
    found, queue = [], 0.0
    for count in range(1, most + 1):
        response = demand * (1.0 + queue)
        found.append(count / (elsewhere + response))
        queue = found[-1] * response
    return found
