"""Text about simulations: time, requests, hot spots and price for people to read."""

from __future__ import annotations

from reblock.render.columns import fields, plain
from reblock.render.text import plural
from reblock.simulation import Outcome
from reblock.simulation.limits import HotSpot
from reblock.units import format_count, format_seconds, format_size

#: The most hot spots that are shown.
_SHOWN = 3


def outcome(found: Outcome) -> str:
    """A simulation for people."""
    scenario = found.scenario
    workers, span = plural(scenario.workers, "worker"), format_seconds(found.makespan_seconds)
    if found.completes:
        headline = f"{span} on {workers} of {_devices(found)}"
    else:
        headline = f"stops after {span} on {workers}: a share failed more than {plural(scenario.retries, 'time')}"
    lines = [headline, *fields([*_time(found), *_requests(found), *_hot(found), *_money(found)])]
    return "\n".join([*lines, "", "assumed", *fields(_assumed(found))])


def _devices(found: Outcome) -> str:
    return plain(" → ".join(dict.fromkeys((found.devices[0], found.devices[-1]))))


def _time(found: Outcome) -> list[tuple[str, str]]:
    tasks, shares = (sum(getattr(leg, name) for leg in found.legs) for name in ("tasks", "shares"))
    classes = sum(leg.classes for leg in found.legs)
    ideal = format_seconds(sum(leg.ideal_seconds for leg in found.legs))
    pairs = [
        ("tasks", f"{plural(tasks, 'task')} of {plural(classes, 'class', 'classes')}, in {plural(shares, 'share')}"),
    ]
    if found.completes:
        pairs.append(("efficiency", f"{found.efficiency:.0%}: {ideal} if all workers were busy all the time"))
    if len(found.legs) > 1:
        pairs.append(("passes", ", ".join(format_seconds(leg.seconds) for leg in found.legs)))
    if failures := sum(leg.failures for leg in found.legs):
        pairs.append(("failures", f"{plural(failures, 'attempt')} failed and had to be repeated"))
    return pairs


def _requests(found: Outcome) -> list[tuple[str, str]]:
    some = found.requests
    peaks = f"{_rate(some['peak_gets_per_second'])} GET, {_rate(some['peak_puts_per_second'])} PUT"
    prefix = f"{_rate(some['prefix_gets_per_second'])} GET, {_rate(some['prefix_puts_per_second'])} PUT"
    return [
        ("requests", f"{format_count(round(some['gets']))} GET, {format_count(round(some['puts']))} PUT"),
        ("per second", f"{_rate(some['mean_per_second'])} on average; at most {peaks}"),
        ("of a prefix", f"at most {prefix} per second"),
    ]


def _hot(found: Outcome) -> list[tuple[str, str]]:
    spots = found.hot_spots
    if not spots:
        return [("hot spots", "none")]
    pairs = [("hot spots" if not number else "", _spot(one)) for number, one in enumerate(spots[:_SHOWN])]
    if len(spots) > _SHOWN:
        pairs.append(("", f"{format_count(len(spots) - _SHOWN)} more: --json shows them"))
    throttled = sum(leg.throttled_seconds for leg in found.legs)
    return [*pairs, ("slowed down", f"for {format_seconds(throttled)}")]


def _spot(one: HotSpot) -> str:
    where = f"{one.array}, chunks from {one.first} on: " if one.prefixes > 1 or one.first else f"{one.array}: "
    demand = f"{_rate(one.demand_per_second)} {one.kind.upper()} wanted, {_rate(one.limit_per_second)} served"
    return f"{where}{demand} per second, for {format_seconds(one.seconds)}"


def _money(found: Outcome) -> list[tuple[str, str]]:
    read, written = (sum(getattr(leg, name) for leg in found.legs) for name in ("bytes_read", "bytes_written"))
    price = found.price
    parts = ", ".join(
        f"{name} ${price[key]:,.2f}" for name, key in (("GET", "gets"), ("PUT", "puts"), ("egress", "egress"))
    )
    return [
        ("egress", f"{format_size(read)} read, {format_size(written)} written"),
        ("price", f"${price['total']:,.2f}: {parts}"),
    ]


def _assumed(found: Outcome) -> list[tuple[str, str]]:
    one = found.scenario
    what = "all chunks of an array" if not one.prefix_axes else "chunks with the same first index"
    prices = one.prices
    pairs = [
        (
            "limits",
            f"{_limit(one.gets_per_second)} GET, {_limit(one.puts_per_second)} PUT per second and prefix ({what})",
        ),
        (
            "prices",
            f"${prices.get_per_thousand:g} per 1,000 GET, ${prices.put_per_thousand:g} per 1,000 PUT, "
            f"${prices.egress_per_gigabyte:g} per GB read",
        ),
        ("stragglers", f"{one.stragglers}, failures {one.failure_rate:g} per task, seed {one.seed}"),
    ]
    if one.bytes_per_second:
        pairs.append(("bandwidth", f"{format_size(one.bytes_per_second)} per second for all workers together"))
    if one.per_host > 1:
        pairs.append(("machines", f"{one.per_host} workers share {one.cores} core{'s' * (one.cores > 1)}"))
    if one.startup_seconds:
        pairs.append(("startup", f"{format_seconds(one.startup_seconds)} for each worker"))
    return pairs


def _limit(number: float) -> str:
    return _rate(number) if number else "any number of"


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
