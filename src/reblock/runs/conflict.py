"""Conflict: why an unfinished run in a target's place cannot be continued, and what to do about it."""

from __future__ import annotations

from typing import Any

from reblock.errors import ChangedError, ReblockError, UnfinishedError, command
from reblock.runs.identity import differences, source_changed
from reblock.runs.journal import Journal
from reblock.runs.sources import Sources


def conflict(journal: Journal, problem: dict[str, Any], target: str, sources: Sources, source: Any) -> ReblockError:
    """The error about a journal of another problem: another source, a changed source, or another target.

    `source` is the one that this run was asked to read.
    """
    before, began = journal.header["problem"], journal.header["request"].get("source")
    advice = f"{command('clean', target)} removes it"
    if sources.is_object:
        return UnfinishedError(
            f"an unfinished run that reads {began} is in the place of {target}, and a run that reads an object cannot "
            f"resume it: {advice}, the command that began it resumes it"
        )
    if source_changed(before, problem) and began != source:
        return UnfinishedError(
            f"an unfinished run in the place of {target} reads {began}, which does not hold what {sources.location} "
            f"holds: {advice}, the command that began it resumes it"
        )
    if source_changed(before, problem):
        what = sources.describe_change(journal.header)
        return ChangedError(f"{sources.location} changed since the unfinished run on {target} began ({what}): {advice}")
    what = "; ".join(differences(before, problem))
    return UnfinishedError(
        f"an unfinished run of another problem is in the place of {target} ({what}): {advice}, the command that began "
        "it resumes it"
    )
