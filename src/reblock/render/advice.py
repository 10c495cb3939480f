"""Text of advice: layouts beside each other with bars, what converting takes, and the command that does it."""

from __future__ import annotations

from collections.abc import Sequence

from reblock.advisor.advice import Advice, Candidate
from reblock.geometry.grid import chunk_text
from reblock.model import AccessPattern
from reblock.render.columns import clip, fields, plain, table
from reblock.units import format_count, format_seconds, format_size

#: Characters of the longest bar, and of the longest names and chunks.
_BAR, _NAME, _CHUNKS = 24, 28, 32
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WORDS = {"time": "seconds", "blocks": "blocks", "bytes": "bytes", "requests": "requests"}


def advice(found: Advice) -> str:
    """Everything that `reblock advise` prints."""
    lines = [_headline(found), ""]
    if found.pattern.classes:
        lines += ["accesses", *_pattern_lines(found.pattern), ""]
    lines += [f"layouts, per access ({found.device})", *_candidate_lines(found), ""]
    if len(found.pattern.classes) > 1:
        lines += ["per class", *_class_lines(found), ""]
    if found.copies:
        lines += [f"{len(found.copies)} copies", *fields(_copy_fields(found)), ""]
    if found.orders:
        lines += ["order of chunks on disk", *_order_lines(found), ""]
    if found.media:
        lines += ["media, the best first", *_media_lines(found), ""]
    lines += ["worth it?", *fields(_worth_fields(found))]
    lines += fields([("-", note) for note in found.notes], indent=4)
    return "\n".join([*lines, *(["", found.command] if found.command else [])])


def _headline(found: Advice) -> str:
    best, today = found.best, found.today
    chunks = f"chunks {_chunks(best)}" + (f" in shards {chunk_text(best.shards)}" if best.shards else "")
    figures = f"{_number(best.mean.blocks)} blocks, {format_seconds(best.mean.seconds)} per access"
    if not found.pattern.classes:
        figures = "the default"
    elif today is not None:
        before = f"{_number(today.mean.blocks)} blocks, {format_seconds(today.mean.seconds)}"
        figures += f"; today {before}"
    return f"{plain(found.subject)}: {chunks}: {figures}"


def _pattern_lines(pattern: AccessPattern) -> list[str]:
    rows = [
        [
            clip(one.label, _NAME),
            "write" if one.writes else "read",
            chunk_text(one.shape),
            one.alignment.value,
            f"{weight:.1%}",
        ]
        for one, weight in zip(pattern.classes, pattern.weights, strict=True)
    ]
    lines = table(("class", "operation", "shape", "starts", "weight"), rows, words=4)
    if pattern.accesses is not None:
        share = f"{pattern.explained:.1%}".replace("100.0%", "100%")
        lines.append(f"  these classes explain {share} of {format_count(pattern.accesses)} accesses in the log")
    return lines


def _candidate_lines(found: Advice) -> list[str]:
    figures = [_figure(one, found.goal) for one in found.candidates]
    most = max(figures, default=0.0)
    rows = [
        [
            one.method + (" ←" if one == found.best else ""),
            clip(_chunks(one), _CHUNKS),
            chunk_text(one.shards) if one.shards else "",
            _number(one.mean.blocks),
            format_size(one.mean.bytes),
            format_seconds(one.mean.seconds),
            _bar(figure / most if most else 0.0),
        ]
        for one, figure in zip(found.candidates, figures, strict=True)
    ]
    header = ["layout", "chunks", "shards", "blocks", "bytes", "seconds", f"{_WORDS[found.goal]:<{_BAR}}"]
    if not any(one.shards for one in found.candidates):
        header.pop(2)
        rows = [[*row[:2], *row[3:]] for row in rows]
    padded = [[*row[:-1], f"{row[-1]:<{_BAR}}"] for row in rows]
    return table(header, padded, words=2)


def _class_lines(found: Advice) -> list[str]:
    shown: list[Candidate] = [] if found.today is None else [found.today]
    shown += [one for one in found.candidates if one.method == "default" and one != found.best]
    shown += [found.best, *(one for one in found.candidates if one.chunks is None and one.method != "linear")]
    header = ["class", *(label for one in shown for label in (one.method, ""))]
    rows = [
        [
            clip(each.label, _NAME),
            *(
                text
                for one in shown
                for text in (f"{_number(one.classes[row].blocks)} blocks", format_seconds(one.classes[row].seconds))
            ),
        ]
        for row, each in enumerate(found.pattern.classes)
    ]
    return table(header, rows)


def _copy_fields(found: Advice) -> list[tuple[str, str]]:
    return [
        (str(number + 1), f"chunks {chunk_text(one.chunks)}, order {_order(one.order)}: {', '.join(one.names)}")
        for number, one in enumerate(found.copies)
    ]


def _order_lines(found: Advice) -> list[str]:
    rows = [[one.order, _number(one.span), "—" if one.runs is None else _number(one.runs)] for one in found.orders]
    return table(("order", "span", "runs"), rows)


def _media_lines(found: Advice) -> list[str]:
    rows = [
        [
            one.placement + (f" {' × '.join(map(str, one.boxes))}" if one.boxes else ""),
            f"{one.touched:.2f}",
            _number(one.largest),
        ]
        for one in found.media
    ]
    return table(("placement", "media per access", "blocks of the busiest"), rows)


def _worth_fields(found: Advice) -> list[tuple[str, str]]:
    conversion = found.conversion
    if conversion is None:
        return [("conversion", "not priced: there is no stored array, or no memory for it")]
    if not conversion.seconds:
        return [("conversion", "not needed")]
    pairs = [("conversion", f"{format_seconds(conversion.seconds)}, {format_size(conversion.bytes)} moved")]
    if not found.pattern.classes:
        return pairs
    if conversion.break_even_reads is None:
        return [*pairs, ("pays back", "never: accesses do not get faster")]
    count = conversion.break_even_reads
    return [*pairs, ("pays back", f"after {format_count(count)} read{'s' * (count != 1)} of this mix")]


def _figure(one: Candidate, goal: str) -> float:
    return one.mean.seconds if goal == "time" else float(getattr(one.mean, goal))


def _bar(part: float) -> str:
    """A bar for a part of the longest one."""
    eighths = max(round(part * _BAR * 8), 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _chunks(one: Candidate) -> str:
    if one.method == "linear":
        return "none"
    return "" if one.chunks is None else chunk_text(one.chunks)


def _order(order: Sequence[int]) -> str:
    return ",".join(map(str, order))


def _number(value: float) -> str:
    return (
        f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.2f}" if value < 100 else f"{value:.1f}"
    )
