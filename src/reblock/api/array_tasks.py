"""Array tasks: run as one member of a job array, whose members make one target together.

Members never wait for each other's work, because a scheduler may run them one after another. So a plan whose
second pass reads what all members have written in the first cannot be shared: another plan is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from reblock.api.dataset_job import AnyJob, DatasetJob
from reblock.api.job import Job
from reblock.api.parts import choose_whole
from reblock.api.preparing import RunOptions, jobs_of, prepare
from reblock.api.reporting import AnyReport, meter_of, report_of
from reblock.errors import InfeasibleError, UnfinishedError, UsageError, option
from reblock.model import Plan
from reblock.planner import Decision, choose, price, share
from reblock.runs.cancelling import cancellable
from reblock.runs.member_attempt import BegunError, MemberAttempt
from reblock.runs.members import ArrayMember
from reblock.runs.meter import Progress

#: How often a member adopts the plan of another one that began first: once, unless runs are also discarded.
_MOST_ADOPTIONS = 5


def divide(job: AnyJob, array_task: str, *, replan: bool = True) -> AnyJob:
    """The job as members of a job array share it: with enough tasks, and without passes that wait for each other.

    Without `replan`, a plan that cannot be shared is an error.
    """
    return _divide(job, ArrayMember.parse(array_task), replan=replan)


def _divide(job: AnyJob, member: ArrayMember, *, replan: bool = True) -> AnyJob:
    made = {name: _divide_array(one, member.count, replan=replan) for name, one in jobs_of(job).items()}
    return job.with_jobs(made) if isinstance(job, DatasetJob) else made[""]


def _divide_array(job: Job, members: int, *, replan: bool) -> Job:
    decision = job.decision
    if not _is_shareable(decision.plan, members):
        if job.demands.strategy is not None or not replan:
            raise UsageError(
                f"this plan has {len(decision.plan.passes)} passes, and members of a job array do not wait for each "
                f"other: leave out {option('strategy')} and {option('plan_file')}"
            )
        decision = _choose_alone(job, decision)
    plan = share(decision.plan, decision.problem, members)
    if plan is not decision.plan:
        decision = price(plan, decision.problem, objective=decision.objective)
    return replace(job, decision=decision)


def _is_shareable(plan: Plan, members: int) -> bool:
    """Whether members can do tasks of a plan without waiting for each other, and without planning again."""
    if plan.divided:
        return False
    return len(plan.passes) == 1 or (plan.interleaved and plan.passes[-1].tasks.count >= members)


def _choose_alone(job: Job, before: Decision) -> Decision:
    """The best plan of one pass that reads whole chunks."""
    if before.plan.divided:
        whole = choose_whole(job.source, before)
        if whole is None:
            raise UsageError(
                "members of a job array read whole chunks, and those do not fit into the memory budget: "
                f"give more {option('memory')}, or leave out {option('array_task')}"
            )
        before = whole
    if len(before.plan.passes) == 1:
        return before
    try:
        return choose(replace(before.problem, scratch_bytes=0), objective=before.objective)
    except InfeasibleError as error:
        error.add(f"members of a job array share no intermediate arrays; without {option('array_task')}, less would do")
        raise


def run_member(job: AnyJob, how: RunOptions, progress: Progress | None, cancelled: Callable[[], bool]) -> AnyReport:
    """Do the share of one member, and publish if it was the last; its report has the costs of that share."""
    began = perf_counter()
    member = how.member or ArrayMember(0, 1)
    # A member may be started again after the target was published.
    how = replace(how, exist_ok=True)
    for _ in range(_MOST_ADOPTIONS):
        prepared, attempt = prepare(_divide(job, member), how, cancelled)
        if not isinstance(attempt, MemberAttempt):
            raise TypeError("an attempt of a member is a MemberAttempt")
        if progress is not None:
            attempt.meter = meter_of(prepared, progress)
        try:
            if attempt.is_done:
                attempt.published = True
            else:
                with cancellable(cancelled):
                    attempt.run()
        except BegunError:
            continue
        return replace(report_of(prepared, attempt, began), array_task=_described(attempt))
    raise UnfinishedError(f"runs on {job.target} begin and end all the time: try again when the others have ended")


def _described(attempt: MemberAttempt) -> dict[str, object]:
    return {
        "member": attempt.member.number,
        "members": attempt.member.count,
        "tasks": sum(map(len, attempt.shares)),
        "all_tasks": sum(plan.passes[-1].tasks.count for plan in attempt.plans),
        "published": attempt.published,
        "unfinished_members": attempt.unfinished,
    }
