"""Progress: one line on stderr that a terminal shows again and again, or a line every ten seconds in a log.

The work itself only puts two numbers into a place where a thread of ours finds them, so that it costs the same for a
million chunks as for one. The line is never longer than the terminal is wide: what does not fit is left out.
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

#: Told the bytes read and written so far, and all there will be; from any thread.
Tell = Callable[[int, int], None]

#: How often a terminal is written to, and how often anything else.
_DRAW_SECONDS, LOG_SECONDS = 0.1, 10.0
#: The rate is that of so many seconds; none is shown before the first of them.
_WINDOW_SECONDS, _FIRST_SECONDS = 20.0, 1.0
#: Columns of a terminal that does not tell, of one that has room for nothing, of the bar at the least and at the most,
#: and of the label at the most.
_COLUMNS, _NARROW, _SHORT, _LONG, _LABEL = 80, 12, 8, 40, 30


def moved_bytes(cost: Cost) -> int:
    """All that a plan reads and writes."""
    return cost.bytes_read + cost.bytes_written


@contextmanager
def progress(label: str, whole: int, *, quiet: bool = False) -> Iterator[Tell | None]:
    """A function to tell progress to, while it is shown; None where nobody wants to see it.

    `whole` is what there will be, known before the first word comes.
    """
    if quiet or sys.stderr is None or sys.stderr.closed:
        yield None
        return
    meter = _Meter(plain(label), whole)
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    over = Event()
    thread = Thread(target=_draw if terminal else _log, args=(meter, over), name="reblock-progress", daemon=True)
    thread.start()
    try:
        yield meter.tell
    finally:
        over.set()
        thread.join()


class _Meter:
    """What is known, and how to say it."""

    def __init__(self, label: str, whole: int) -> None:
        self._label = label
        self._now: tuple[int, int] = (0, whole)
        # What is found finished at the start was not done by this run, and says nothing of its rate.
        self._told = False
        self._seen: deque[tuple[float, int]] = deque()

    def tell(self, done: int, whole: int) -> None:
        """Note how far it is; numbers of threads that overtake each other differ by little, and the largest stays."""
        before, of = self._now
        if done > before or whole != of:
            self._now = (done, whole)
        self._told = True

    def facts(self, now: float) -> tuple[str, str, str, str]:
        """Percent, bytes, rate and time left; the last two are empty while nobody knows."""
        done, whole = self._now
        rate, whole = self._rate(now, done), max(whole, 1)
        amount, unit = format_size(whole).split()
        scale = whole / float(amount)
        digits = len(amount.partition(".")[2])
        return (
            # Rounded down: 100 % is all of it. Padded, so that the line keeps still.
            f"{min(100 * done // whole, 100):3}%",
            f"{done / scale:{len(amount)}.{digits}f}/{amount} {unit}",
            f"{format_size(rate)}/s" if rate else "",
            _clock((whole - done) / rate) if rate else "",
        )

    def _rate(self, now: float, done: int) -> float:
        """Bytes per second of late; 0 while nobody knows."""
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
        """All of it in less than so many columns, the most important first."""
        percent, size, rate, left = self.facts(now)
        # Terminals write ^C behind it.
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
        """All of it for a log."""
        percent, size, rate, left = self.facts(now)
        amount = size.strip().replace("/", " of ")
        words = [percent.strip(), f"{amount} read and written", rate, f"{left} left" if left else ""]
        return f"reblock: {self._label}: {', '.join(word for word in words if word)}"


def _draw(meter: _Meter, over: Event) -> None:
    """Show a line on a terminal until it is over, and leave nothing of it."""
    shown = ""
    while not over.is_set():
        line = meter.line(_columns(), monotonic())
        if line != shown and not _write(f"\r{line}\x1b[K"):
            return
        shown = line
        over.wait(_DRAW_SECONDS)
    _write("\r\x1b[K")


def _log(meter: _Meter, over: Event) -> None:
    """Write a line every now and then until it is over."""
    while not over.wait(LOG_SECONDS):
        if not _write(f"{meter.sentence(monotonic())}\n"):
            return


def _write(text: str) -> bool:
    """Whether somebody is there to be told: a terminal may go away."""
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
    """A time that changes every second in its last digit; long ones in words."""
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
    """The end of a label, as the stream can write it, in at most so many columns."""
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    label = label.encode(encoding, "backslashreplace").decode(encoding)
    if _width(label) <= columns:
        return label
    while _width(label) > columns - 3:
        label = label[1:]
    return f"...{label}"
