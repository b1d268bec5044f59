"""Examples of what the API answers."""

from __future__ import annotations

from typing import Any

from fencepost.core.job.policy import DEFAULT_POLICY
from fencepost.core.job.replay_order import ReplayView
from fencepost.core.stats.statistics import Statistics
from fencepost.http.openapi.example_values import (
    CURSOR,
    JOB_ID,
    MAIL,
    NOW,
    OTHER_ID,
    SOON,
    TOKEN,
    json,
    plain,
)
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.wire import access, attention, control, events, flows, jobs, leases, overview, series
from fencepost.wire.replays import WireReplays

COUNTS = json('"scheduled": 12, "running": 3')
FAILURE = json('"category": "temporary", "message": "mailbox is full"')
POLICY = plain(jobs.policy_of(DEFAULT_POLICY))
_TOKEN = json(
    """"id": "0f8d6c1a5f43", "name": "deploy", "roles": ["submit", "read"], "queues": ["mail"],
    "rate": null, "expires_at": null, "revoked_at": null""",
    created_at=NOW,
)


def replies() -> dict[Any, Any]:
    """Return an example of each reply, by its struct."""
    return (
        _submissions()
        | _jobs()
        | _details()
        | _changes()
        | _leases()
        | _overview()
        | _records()
        | _figures()
    )


def _submissions() -> dict[Any, Any]:
    accepted = {"id": JOB_ID, "type": "send_mail", "state": "scheduled", "duplicate": False}
    refused = json('"code": "invalid_job", "detail": "queue must be non-empty text, got \'\'"')
    sent = {"id": OTHER_ID, "name": "user.created", "sent_at": NOW, "jobs": [accepted]}
    return {
        jobs.Accepted: accepted,
        jobs.Refused: refused,
        jobs.BatchReply: {"jobs": [accepted, refused]},
        flows.SubmittedFlow: {"id": OTHER_ID, "jobs": {"fetch": accepted}},
        events.Sent: sent,
    }


def _jobs() -> dict[Any, Any]:
    times = dict.fromkeys(("created_at", "updated_at", "run_at", "scheduled_at", "started_at"), NOW)
    lease = {"worker": "w1", "version": 1, "expires_at": SOON, "expired": False}
    summary = json(
        """"type": "send_mail", "queue": "mail", "priority": 1, "state": "running", "attempt": 1,
        "max_attempts": 3, "expires_at": "2026-02-07T12:00:00Z", "completed_at": null,
        "lease_version": 1, "failure": null,
        "key": "welcome:42", "tags": {"tenant": "7"}, "correlation_id": null, "replay_of": null,
        "callback_url": null, "flow": null, "node": null, "concurrency_key": null""",
        id=JOB_ID,
        lease=lease,
        progress={"fraction": 0.5, "message": "half way", "at": NOW},
        **times,
    )
    listed = summary | {"preview": '{"to":"a@b.c","subject":"hi"}'}
    flow = json(
        """"correlation_id": "nightly", "type": "fetch", "is_live": true,
        "ended_at": null, "is_complete": true, "counts": {"pending": 1}""",
        id=OTHER_ID,
        created_at=NOW,
        started_at=NOW,
    )
    return {
        jobs.JobSummary: summary,
        jobs.ListedJob: listed,
        jobs.ExistingJob: summary,
        jobs.JobView: summary | {"policy": POLICY, "payload": MAIL, "result": None},
        jobs.WireJobPage: json('"looked": null, "unreadable": 0', jobs=[listed], next=CURSOR),
        flows.WireFlowPage: {"flows": [flow], "next": None},
        flows.FlowView: {
            "id": OTHER_ID,
            "jobs": {"fetch": summary, "report": summary},
            "edges": [{"from": "fetch", "to": "report", "mode": "all"}],
        },
    }


def _details() -> dict[Any, Any]:
    attempt = json(
        '"previous_id": null, "number": 1, "lease_version": 1, "worker": "w1", "outcome": "failed"',
        id=f"{JOB_ID}.1",
        job_id=JOB_ID,
        started_at=NOW,
        ended_at=SOON,
        failure=FAILURE,
    )
    reason = json('"code": "next", "text": "claimable; it is next in line for its type"')
    check = json(
        """"code": "workers", "is_met": true, "text": "a live worker serves it",
        "note": "2 of 4 workers" """
    )
    refusal = json(
        """"operation": "ack", "fence_held": 2, "fence_present": 3, "worker": "app-1:3977" """,
        at=NOW,
    )
    return {
        control.Attempts: {"attempts": [attempt]},
        control.History: {"history": [{"state": "pending", "at": NOW, "reason": "submitted"}]},
        control.Result: {"id": JOB_ID, "state": "completed", "result": {"sent": True}},
        control.Reasons: {"reasons": [reason], "checks": [check]},
        control.RefusedWrites: {"refusals": [refusal]},
    }


def _changes() -> dict[Any, Any]:
    letter = json(
        '"type": "send_mail", "queue": "mail", "state": "dead_letter", "attempts": 3',
        job_id=JOB_ID,
        failure=FAILURE,
        completed_at=NOW,
    )
    replay = json(
        """"state": "running", "started_by": "ann", "ended_at": null, "type": "send_mail",
        "queue": null, "group": null, "since": null, "until": null, "patched": [],
        "sample": null, "rate": 10.0, "stop_above": 0.2, "stop_after": 10,
        "stop_failures": null, "total": 120, "is_total_known": true, "replayed": 40,
        "skipped": {"duplicate": 1}, "completed": 30, "failed": 2, "open": 8, "left": 79""",
        id=OTHER_ID,
        started_at=NOW,
    )
    return {
        jobs.Count: {"count": 2},
        control.Retried: {"count": 12, "dry_run": True},
        control.Cancelled: {"count": 12, "dry_run": True},
        control.EditedJobs: {"count": 12, "refused": {"state_conflict": 1}, "dry_run": False},
        control.JobCount: {"count": 42, "at_least": False, "looked": None, "unreadable": 0},
        control.WireDeadLetterPage: {"dead_letters": [letter], "next": None},
        control.WireReplayed: {"count": 12},
        control.WireDiscarded: {"count": 12, "dry_run": False},
        ReplayView: replay,
        WireReplays: {"replays": [replay]},
    }


def _leases() -> dict[Any, Any]:
    claimed = json(
        """"type": "send_mail", "queue": "mail", "priority": 1, "attempt": 1, "max_attempts": 3,
        "previous_attempt_id": null, "timeout": 60.0, "lease_ttl": 30.0, "key": "welcome:42",
        "tags": {"tenant": "7"}, "correlation_id": null, "flow": null, "dependencies": [],
        "checkpoint": null""",
        id=JOB_ID,
        attempt_id=f"{JOB_ID}.1",
        lease={"token": TOKEN, "version": 1, "expires_at": SOON},
        policy=POLICY,
        payload=MAIL,
    )
    settled = {"id": JOB_ID, "status": 200, "state": "completed", "repeated": False}
    stale = json(
        """"status": 409, "state": "scheduled", "code": "stale_lease",
        "detail": "the lease expired, and the job is not this worker's any more" """,
        id=OTHER_ID,
    )
    held = json(
        """"type": "send_mail", "queue": "mail", "attempt": 1, "worker": "w1",
        "fence": 1, "is_expired": false""",
        job_id=JOB_ID,
        started_at=NOW,
        expires_at=SOON,
    )
    return {
        leases.HeldLeases: {"leases": [held], "is_complete": True},
        leases.ClaimReply: {"jobs": [claimed], "wait": 0.8},
        leases.LeaseReply: settled,
        leases.LeaseReplies: {"items": [settled, stale]},
    }


def _overview() -> dict[Any, Any]:
    type_ = {"name": "send_mail", "counts": COUNTS}
    queue = {"name": "mail", "counts": COUNTS, "claimable": {"send_mail": COUNTS["scheduled"]}}
    worker = json(
        """"id": "w1", "host": "web-1", "pid": 4711, "queues": {"mail": 3, "bulk": 1},
        "types": ["send_mail"], "concurrency": 10, "running": 3""",
        started_at=NOW,
        seen_at=SOON,
    )
    cron = json(
        """"name": "nightly", "expression": "0 3 * * *", "tz": "UTC", "description": "At 03:00",
        "type": "clean_up", "queue": "default", "missed": "skip", "catch_up": 10,
        "is_paused": false, "last_tick": null""",
        next_tick=NOW,
        declared_at=NOW,
        changed_at=NOW,
    )
    times = dict.fromkeys(("tick", "created_at", "started_at", "ended_at"), NOW)
    run = {"job_id": JOB_ID, "state": "completed", **times}
    return {
        QueueView: queue | {"max_running": 10},
        TypeView: type_ | {"is_paused": True},
        overview.Queues: {"queues": [queue]},
        overview.Types: {"types": [type_]},
        overview.AppLimit: {"max_running": 100},
        overview.Workers: {"workers": [worker], "gone": []},
        overview.Crons: {"crons": [cron]},
        overview.CronRuns: {"runs": [run]},
        overview.Pauses: {"pauses": [{"kind": "queue", "name": "mail", "by": "deploy", "at": NOW}]},
        overview.Ticks: {"ticks": [NOW, "2026-02-01T12:00:00Z"]},
        overview.ScaleReply: json(
            """"queue": "mail", "depth": 1200, "running": 20, "slots": 20, "wanted_slots": 44,
            "drain_seconds": 90.0, "oldest_age": 12.5, "wanted_workers": 3"""
        ),
        overview.Completions: {"values": ["mail", "bulk-mail"]},
        overview.Health: {"status": "live"},
        overview.Findings: {
            "at": NOW,
            "findings": [json('"level": "ok", "code": "workers", "text": "live workers: 3"')],
        },
    }


def _records() -> dict[Any, Any]:
    event = json(
        '"name": "user.created", "key": null, "payload": {"user_id": 42}',
        id=OTHER_ID,
        sent_at=NOW,
        jobs=[{"id": JOB_ID, "type": "greet", "duplicate": False}],
    )
    action = json(
        """"principal_id": "0f8d6c1a5f43", "principal": "ci", "action": "job.cancel",
        "status": 200""",
        id=OTHER_ID,
        at=NOW,
        target=JOB_ID,
        request_id=OTHER_ID,
    )
    return {
        events.WireEventPage: {"events": [event], "next": None},
        overview.WireActionPage: {"actions": [action], "next": None},
        access.WireTokens: {"tokens": [_TOKEN]},
        access.CreatedToken: _TOKEN | {"token": f"fp_{12 * '0'}_{48 * '0'}"},
        access.Me: json(
            """"name": "deploy", "token_id": "0f8d6c1a5f43", "by": "session",
            "roles": ["read", "operate"], "queues": null, "app": "shop", "version": "0.1.0",
            "store": {"engine": "sqlite", "durability": "commits are on the disk"}""",
            expires_at=SOON,
            at=NOW,
        ),
    }


def _figures() -> dict[Any, Any]:
    times = {"p50": 0.02, "p90": 0.1, "p99": 0.8}
    recent = {"counts": COUNTS, "ended_rate": 5.0, "wait": times, "run": times}
    figures = recent | {"ended": {"completed": 299, "failed": 1}}
    item = json(
        """"code": "no_worker", "level": "now", "since": null, "count": 12,
        "target": {"kind": "queue", "name": "mail"},
        "text": "12 jobs wait on queue 'mail', and no live worker takes them" """
    )
    group = json(
        """"id": "9f3c0a7be2150f8d", "type": "send_mail", "count": 60,
        "exception": "smtplib.SMTPServerDisconnected", "is_rising": true,
        "frame": "shop/mail.py:41 in deliver", "message": "connection closed",
        "queues": {"mail": 60}""",
        first_at=NOW,
        last_at=SOON,
        trend=[0] * 23 + [60],
        sample=[JOB_ID],
    )
    return {
        attention.Attention: {"at": NOW, "items": [item]},
        attention.Groups: {"at": NOW, "is_complete": True, "groups": [group]},
        series.Series: json(
            """"step": 60.0, "series": [
                {"metric": "completed", "name": "mail", "values": [12, null, 7.0]}]""",
            at=NOW,
            start=NOW,
        ),
        Statistics: recent
        | json(
            '"window": 60.0, "submitted_rate": 5.2, "sample": 300, "is_sampled": false',
            at=NOW,
            queues=[figures | {"name": "mail"}],
            types=[figures | {"name": "send_mail"}],
        ),
    }
