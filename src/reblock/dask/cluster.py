"""Workers in other processes: how many there are, whether they have reblock, and how the optimiser reaches them.

Under distributed the function that optimises a graph is pickled and runs on the scheduler. Where reblock is missing
there, the function becomes dask's own, so that graphs are computed without buffers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

from reblock.dask.optimizing import optimize_graph
from reblock.dask.tally import Channel
from reblock.errors import UsageError

#: Unpickled instead of a function of reblock, which might not be there.
_LOADER = (
    "(__import__('reblock.dask.cluster', fromlist=['restore']).restore({options!r}, {channel!r}) "
    "if __import__('importlib.util', fromlist=['find_spec']).find_spec('reblock') "
    "else __import__('dask.array.optimization', fromlist=['optimize']).optimize)"
)


class Optimizer:
    """`optimize_graph` with options, as dask's configuration keeps it."""

    def __init__(self, options: dict[str, Any], channel: Channel | None) -> None:
        self._options, self._channel = options, channel

    def __call__(self, dsk: Any, keys: Any, **_: Any) -> Any:
        return optimize_graph(dsk, keys, **self._options, channel=self._channel)

    def __reduce__(self) -> tuple[Any, ...]:
        channel = self._channel and (self._channel.name, self._channel.process, self._channel.path)
        # The text is ours, and the options are numbers and checked words.
        return eval, (_LOADER.format(options=self._options, channel=channel),)


def restore(options: dict[str, Any], channel: tuple[str, int, str | None] | None) -> Optimizer:
    """An optimiser that was pickled."""
    return Optimizer(options, channel and Channel(*channel))


def _client() -> Any:
    """The client of distributed that computations go to; None if there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def count_workers() -> int:
    """Worker processes of the current client; 1 without one."""
    client = _client()
    if client is None or client.asynchronous:
        return 1
    return max(len(client.scheduler_info(n_workers=-1)["workers"]), 1)


def check_workers() -> int:
    """The same, after a check that scheduler and workers can import reblock; 0, with a warning, if not."""
    client = _client()
    if client is None or client.asynchronous:
        return 1
    probe = _make_probe()
    try:
        found = {"the scheduler": client.run_on_scheduler(probe), **client.run(probe)}
    except Exception as error:  # noqa: BLE001 - a check is not worth a failure
        warnings.warn(f"it could not be checked whether the workers have reblock: {error}", stacklevel=5)
        return 1
    missing = {name: problem for name, problem in found.items() if problem}
    if missing:
        name, problem = next(iter(missing.items()))
        warnings.warn(
            f"reblock.dask cannot be imported on {name} and {len(missing) - 1} others, so that graphs get no buffers: "
            f"{problem}; install reblock[dask] there",
            stacklevel=5,
        )
        return 0
    return max(len(found) - 1, 1)


def _make_probe() -> Callable[[], str]:
    def probe() -> str:
        try:
            import reblock.dask.runtime  # noqa: F401
        except ImportError as error:
            return str(error)
        return ""

    return probe


def check_path(path: str) -> None:
    """UsageError if workers of the current client do not see the folder of a path."""
    client = _client()
    if client is None or client.asynchronous:
        return
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".reblock-probe-") as probe:
        found = client.run(_make_look(probe.name))
    blind = [name for name, seen in found.items() if not seen]
    if blind:
        raise UsageError(
            f"{blind[0]} and {len(blind) - 1} other workers do not see {folder}: store where all workers share the path"
        )


def _make_look(path: str) -> Callable[[], bool]:
    def look() -> bool:
        from os.path import exists

        return exists(path)

    return look
