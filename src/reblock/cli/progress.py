"""Progress: one line on stderr that a terminal redraws, or a line every ten seconds in a log.

The run only stores two numbers, and a thread of ours shows them, so progress costs the same for a million chunks as for
one. The line is never longer than the terminal is wide: parts that do not fit are omitted.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

from reblock.render.columns import plain
from reblock.units import format_seconds, format_size

if TYPE_CHECKING:
    from reblock.model import Cost

#: Called with the bytes read and written so far and with their total, from any thread.
Tell = Callable[[int, int], None]

#: Seconds between two lines on a terminal and in a log.
_DRAW_SECONDS, LOG_SECONDS = 0.1, 10.0
#: Seconds over which the rate is computed, and seconds before the first rate is shown.
_WINDOW_SECONDS, _FIRST_SECONDS = 20.0, 1.0
#: Columns: of a terminal whose width is unknown, of one that is too narrow, of the shortest and of the longest bar, and
#: of the longest label.
_COLUMNS, _NARROW, _SHORT, _LONG, _LABEL = 80, 12, 8, 40, 30


def moved_bytes(cost: Cost) -> int:
    """The bytes that a plan reads and writes."""
    return cost.bytes_read + cost.bytes_written


@contextmanager
def progress(label: str, whole: int, *, quiet: bool = False) -> Iterator[Tell | None]:
    """Show progress; yields a function to report it to, or None if nothing is to be shown.

    `whole` is the total, known from the start.
    """
    if quiet or sys.stderr is None or sys.stderr.closed:
        yield None
        return
    ticker = _Ticker(plain(label), whole)
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    over = Event()
    thread = Thread(target=_draw if terminal else _log, args=(ticker, over), name="reblock-progress", daemon=True)
    thread.start()
    try:
        yield ticker.tell
    finally:
        over.set()
        thread.join()


class _Ticker:
    """The latest numbers, and their text."""

    def __init__(self, label: str, whole: int) -> None:
        self._label = label
        self._now: tuple[int, int] = (0, whole)
        # Boxes that were finished before the run say nothing about its rate.
        self._told = False
        self._seen: deque[tuple[float, int]] = deque()

    def tell(self, done: int, whole: int) -> None:
        """Store the latest numbers; threads may report out of order, so the largest number counts."""
        before, of = self._now
        if done > before or whole != of:
            self._now = (done, whole)
        self._told = True

    def facts(self, now: float) -> tuple[str, str, str, str]:
        """Percent, bytes, rate and time left; the last two are empty while they are unknown."""
        done, whole = self._now
        rate, whole = self._rate(now, done), max(whole, 1)
        amount, unit = format_size(whole).split()
        scale = whole / float(amount)
        digits = len(amount.partition(".")[2])
        return (
            # Rounded down, so that 100 % means everything; padded, so that the line does not jump.
            f"{min(100 * done // whole, 100):3}%",
            f"{done / scale:{len(amount)}.{digits}f}/{amount} {unit}",
            f"{format_size(rate)}/s" if rate else "",
            _clock((whole - done) / rate) if rate else "",
        )

    def _rate(self, now: float, done: int) -> float:
        """Recent bytes per second; 0 while unknown."""
        if not self._told:
            return 0.0
        if self._seen and done < self._seen[-1][1]:
            # Another plan has begun.
            self._seen.clear()
        self._seen.append((now, done))
        while self._seen[0][0] < now - _WINDOW_SECONDS and len(self._seen) > 2:
            self._seen.popleft()
        began, first = self._seen[0]
        return (done - first) / (now - began) if now >= began + _FIRST_SECONDS else 0.0

    def line(self, columns: int, now: float) -> str:
        """The line for a terminal of this width; the most important parts come first."""
        percent, size, rate, left = self.facts(now)
        # Leave room for the ^C that terminals append.
        most = columns - 3 if columns > _NARROW else max(columns - 1, 1)
        label, room = _clipped(self._label, _LABEL), most - len(percent)
        shown = {"percent": percent}
        parts = {"left": f"{left} left" if left else "", "size": size, "rate": rate, "label": label}
        for name, text in parts.items():
            if text and room >= _width(text) + 2:
                shown[name] = text
                room -= _width(text) + 2
        if room >= _SHORT + 2 and "label" in shown:
            length = min(room - 2, _LONG)
            done, whole = self._now
            filled = length * done // max(whole, 1)
            shown["bar"] = "=" * min(filled, length) + "-" * (length - filled)
        order = ("label", "bar", "percent", "size", "rate", "left")
        return "  ".join(shown[name] for name in order if name in shown)[:most]

    def sentence(self, now: float) -> str:
        """The line for a log."""
        percent, size, rate, left = self.facts(now)
        amount = size.strip().replace("/", " of ")
        words = [percent.strip(), f"{amount} read and written", rate, f"{left} left" if left else ""]
        return f"reblock: {self._label}: {', '.join(word for word in words if word)}"


def _draw(ticker: _Ticker, over: Event) -> None:
    """Redraw the line on a terminal until the work is over, then clear it."""
    shown = ""
    while not over.is_set():
        line = ticker.line(_columns(), monotonic())
        if line != shown and not _write(f"\r{line}\x1b[K"):
            return
        shown = line
        over.wait(_DRAW_SECONDS)
    _write("\r\x1b[K")


def _log(ticker: _Ticker, over: Event) -> None:
    """Write a line to a log at intervals until the work is over."""
    while not over.wait(LOG_SECONDS):
        if not _write(f"{ticker.sentence(monotonic())}\n"):
            return


def _write(text: str) -> bool:
    """Write to stderr; False if it is gone, as a closed terminal is."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return False
    return True


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS


def _clock(seconds: float) -> str:
    """A duration as H:MM:SS; beyond a day in words."""
    whole = round(seconds)
    if whole >= 86400:
        return format_seconds(whole)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _width(text: str) -> int:
    """Columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _clipped(label: str, columns: int) -> str:
    """The end of a label, in the stream's encoding, in at most `columns` columns."""
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    label = label.encode(encoding, "backslashreplace").decode(encoding)
    if _width(label) <= columns:
        return label
    while _width(label) > columns - 3:
        label = label[1:]
    return f"...{label}"
