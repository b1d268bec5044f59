"""An example of every body and reply, as a reader of the document can try or expect it.

They are values of the structs that are really read and written, so that none can go out of date.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

from fencepost.core.access.audit import Action
from fencepost.core.job.history import Change
from fencepost.core.job.job import (
    Attempt,
    AttemptOutcome,
    Category,
    DeadLetter,
    Failure,
    Ownership,
    Progress,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.job.why import Reason
from fencepost.core.stats.recent import Figures, Percentiles, Statistics
from fencepost.http.request.codes import Code
from fencepost.http.request.problems import TITLES, Problem
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.wire import jobs as job_wire
from fencepost.wire import leases as lease_wire
from fencepost.wire.audit import ActionPage
from fencepost.wire.control import Cancelled, EditBody, RetryBody, Selection
from fencepost.wire.crons import Crons, CronView, Ticks
from fencepost.wire.dead_letters import DeadLetterPage, ReplayAll, Replayed
from fencepost.wire.events import EventBody, EventJob, EventPage, EventView, Sent
from fencepost.wire.flows import Count, FlowBody, FlowView, SubmittedFlow
from fencepost.wire.queues import AppLimit, LimitBody, Queues, Types, Workers
from fencepost.wire.search import Attempts, History, JobCount, Reasons, Result
from fencepost.wire.stats import Health, ScaleReply

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOON = NOW + timedelta(seconds=30)
JOB_ID = "5f0c3b0e-6a51-4b7e-9d0a-2f6f3c1d8e47"
OTHER_ID = "b1a7c0de-1d2f-4c3b-8a59-0e6d7f8a9b10"
TOKEN = "0f8d6c1a-5f43-4b6e-8b4a-6a1c2d3e4f50"
CURSOR = "ajE6NDI"
MAIL = Raw(b'{"to":"a@b.c","subject":"hi"}')


def path_example(path: str) -> str:
    """Return what could stand in the place of the parameter of *path*."""
    names = {"queues": "mail", "scale": "mail", "types": "send_mail", "events": "user.created"}
    subject = path.split("/")[2]
    return names.get(subject, "nightly" if subject == "crons" else JOB_ID)


def problem_example(code: Code) -> Any:
    """Return a problem document of this code."""
    problem = Problem(
        type=f"urn:fencepost:problem:{code.name}",
        title=TITLES[code.status],
        status=code.status,
        code=code.name,
        detail=code.meaning,
        request_id=OTHER_ID,
    )
    return _plain(problem)


def example_of(kind: Any) -> Any:
    """Return an example of a struct as JSON has it; None if there is none."""
    return _examples().get(kind)


@cache
def _examples() -> dict[Any, Any]:
    given = [*_bodies(), *_replies(), *_leases()]
    found = {type(each): _plain(each) for each in given}
    many: Any = lease_wire.Items
    for kind in _LEASED:
        found[many[kind]] = {"items": [found[kind]]}
    return found


_LEASED: tuple[Any, ...] = (
    lease_wire.Ack,
    lease_wire.Beat,
    lease_wire.Checkpoint,
    lease_wire.Nack,
    lease_wire.ProgressBody,
    lease_wire.Release,
)


def _plain(value: Any) -> Any:
    # Not to_builtins, which does not look into raw JSON.
    return msgspec.json.decode(msgspec.json.encode(value))


def _bodies() -> list[Any]:
    submission = job_wire.Submission(
        type="send_mail",
        payload=MAIL,
        queue="mail",
        priority=1,
        delay="10s",
        key="welcome:42",
        tags={"tenant": "7"},
    )
    return [
        submission,
        job_wire.Batch(jobs=[submission, job_wire.Submission(type="clean_up")], atomic=True),
        Selection(type="send_mail", state=["delayed"], dry_run=True),
        RetryBody(delay="1m"),
        EditBody(priority="high", tags={"tenant": "7"}),
        LimitBody(max_running=10),
        ReplayAll(type="send_mail", limit=100),
        EventBody(payload={"user_id": 42}, key="signup:42"),
        FlowBody(
            nodes={
                "fetch": job_wire.Submission(type="fetch"),
                "report": job_wire.Submission(type="report", after=["fetch"]),
            }
        ),
        lease_wire.ClaimBody(
            queues={"mail": 3, "bulk": 1},
            types=["send_mail"],
            limit=10,
            lease_ttl="30s",
            worker="w1",
        ),
        lease_wire.Ack(id=JOB_ID, token=TOKEN, result=Raw(b'{"sent":true}')),
        lease_wire.Nack(id=JOB_ID, token=TOKEN, message="mailbox is full", retry_after="5s"),
        lease_wire.Beat(id=JOB_ID, token=TOKEN, lease_ttl="30s"),
        lease_wire.Release(id=JOB_ID, token=TOKEN),
        lease_wire.Checkpoint(id=JOB_ID, token=TOKEN, checkpoint=Raw(b'{"page":7}')),
        lease_wire.ProgressBody(id=JOB_ID, token=TOKEN, fraction=0.5, message="half way"),
    ]


def _summary() -> dict[str, Any]:
    return {
        "id": JOB_ID,
        "type": "send_mail",
        "queue": "mail",
        "priority": 1,
        "state": State.RUNNING,
        "attempt": 1,
        "max_attempts": 3,
        "created_at": NOW,
        "updated_at": NOW,
        "run_at": NOW,
        "expires_at": NOW + timedelta(days=7),
        "scheduled_at": NOW,
        "started_at": NOW,
        "completed_at": None,
        "lease": Ownership("w1", 1, SOON, expired=False),
        "lease_version": 1,
        "failure": None,
        "progress": Progress(0.5, "half way"),
        "key": "welcome:42",
        "tags": {"tenant": "7"},
        "correlation_id": None,
        "replay_of": None,
        "callback_url": None,
        "flow": None,
        "node": None,
        "concurrency_key": None,
    }


def _replies() -> list[Any]:
    accepted = job_wire.Accepted(id=JOB_ID, type="send_mail", state=State.SCHEDULED)
    refused = job_wire.Refused(code="invalid_job", detail="queue must be non-empty text, got ''")
    summary = job_wire.JobSummary(**_summary())
    failure = Failure(Category.TEMPORARY, "mailbox is full")
    policy = job_wire.policy_of(DEFAULT_POLICY)
    counts = {State.SCHEDULED: 12, State.RUNNING: 3}
    return [
        accepted,
        refused,
        job_wire.BatchReply(jobs=[accepted, refused]),
        summary,
        job_wire.ExistingJob(**_summary()),
        job_wire.JobView(**_summary(), policy=policy, payload=MAIL, result=Raw(b"null")),
        job_wire.JobPage(jobs=[summary], next=CURSOR),
        Attempts([_attempt(failure)]),
        History([Change(State.PENDING, NOW, "submitted")]),
        Result(id=JOB_ID, state=State.COMPLETED, result=Raw(b'{"sent":true}')),
        Reasons([Reason("next", "claimable; it is next in line for its type")]),
        Cancelled(12, dry_run=True),
        JobCount(42),
        QueueView(name="mail", max_running=10, counts=counts),
        TypeView(name="send_mail", is_paused=True, counts=counts),
        Queues([QueueView(name="mail", counts=counts)]),
        Types([TypeView(name="send_mail", counts=counts)]),
        AppLimit(max_running=100),
        Workers([_worker()]),
        DeadLetterPage(dead_letters=[_letter(failure)], next=None),
        Replayed(12),
        Sent(id=OTHER_ID, name="user.created", sent_at=NOW, jobs=[accepted]),
        EventPage(events=[_event()], next=None),
        ActionPage(actions=[_action()], next=None),
        Crons([_cron()]),
        Ticks([NOW, NOW + timedelta(days=1)]),
        SubmittedFlow(id=OTHER_ID, jobs={"fetch": accepted}),
        FlowView(id=OTHER_ID, jobs={"fetch": summary}),
        Count(2),
        _statistics(),
        _scale(),
        Health("live"),
    ]


def _attempt(failure: Failure) -> Attempt:
    return Attempt(
        id=f"{JOB_ID}.1",
        job_id=JOB_ID,
        previous_id=None,
        number=1,
        lease_version=1,
        worker="w1",
        outcome=AttemptOutcome.FAILED,
        started_at=NOW,
        ended_at=SOON,
        failure=failure,
    )


def _letter(failure: Failure) -> DeadLetter:
    return DeadLetter(
        job_id=JOB_ID,
        type="send_mail",
        queue="mail",
        state=State.DEAD_LETTER,
        attempts=3,
        failure=failure,
        dead_at=NOW,
    )


def _worker() -> WorkerInfo:
    return WorkerInfo(
        id="w1",
        host="web-1",
        pid=4711,
        queues={"mail": 3, "bulk": 1},
        types=("send_mail",),
        concurrency=10,
        started_at=NOW,
        running=3,
        seen_at=SOON,
    )


def _event() -> EventView:
    job = EventJob(id=JOB_ID, type="greet", duplicate=False)
    return EventView(
        id=OTHER_ID,
        name="user.created",
        sent_at=NOW,
        key=None,
        jobs=[job],
        payload=Raw(b'{"user_id":42}'),
    )


def _statistics() -> Statistics:
    times = Percentiles(0.02, 0.1, 0.8)
    counts = {State.SCHEDULED: 12, State.RUNNING: 3}
    figures = Figures(
        name="mail",
        counts=counts,
        ended={State.COMPLETED: 299, State.FAILED: 1},
        ended_rate=5.0,
        wait=times,
        run=times,
    )
    return Statistics(
        at=NOW,
        window=60.0,
        counts=counts,
        submitted_rate=5.2,
        ended_rate=5.0,
        wait=times,
        run=times,
        queues=[figures],
        types=[msgspec.structs.replace(figures, name="send_mail")],
        sample=300,
        is_sampled=False,
    )


def _scale() -> ScaleReply:
    return ScaleReply(
        queue="mail",
        depth=1_200,
        running=20,
        slots=20,
        wanted_slots=44,
        drain_seconds=90.0,
        oldest_age=12.5,
        wanted_workers=3,
    )


def _action() -> Action:
    return Action(
        id=OTHER_ID,
        at=NOW,
        principal_id="0f8d6c1a5f43",
        principal="ci",
        action="job.cancel",
        target=JOB_ID,
        request_id=OTHER_ID,
        status=200,
    )


def _cron() -> CronView:
    return CronView(
        name="nightly",
        expression="0 3 * * *",
        tz="UTC",
        description="At 03:00",
        type="clean_up",
        queue="default",
        missed="skip",
        catch_up=10,
        is_paused=False,
        last_tick=None,
        next_tick=NOW,
        declared_at=NOW,
        changed_at=NOW,
    )


def _leases() -> list[Any]:
    claimed = lease_wire.ClaimedView(
        id=JOB_ID,
        type="send_mail",
        queue="mail",
        priority=1,
        attempt=1,
        max_attempts=3,
        attempt_id=f"{JOB_ID}.1",
        previous_attempt_id=None,
        timeout=60.0,
        lease_ttl=30.0,
        lease=lease_wire.LeaseView(token=TOKEN, version=1, expires_at=SOON),
        policy=job_wire.policy_of(DEFAULT_POLICY),
        key="welcome:42",
        tags={"tenant": "7"},
        correlation_id=None,
        flow=None,
        dependencies=[],
        payload=MAIL,
        checkpoint=Raw(b"null"),
    )
    settled = lease_wire.LeaseReply(id=JOB_ID, status=200, state=State.COMPLETED, repeated=False)
    stale = lease_wire.LeaseReply(
        id=OTHER_ID,
        status=409,
        state=State.SCHEDULED,
        code="stale_lease",
        detail="the lease expired, and the job is not this worker's any more",
    )
    return [
        lease_wire.ClaimReply(jobs=[claimed], wait=0.8),
        settled,
        lease_wire.LeaseReplies(items=[settled, stale]),
    ]
