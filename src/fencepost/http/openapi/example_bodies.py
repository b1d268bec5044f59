"""Examples of what is sent to the API."""

from __future__ import annotations

from typing import Any

from fencepost.http.openapi.example_values import JOB_ID, MAIL, TOKEN, json
from fencepost.wire import access, control, events, flows, jobs, leases, overview
from fencepost.wire.replays import NewReplay


def bodies() -> dict[Any, Any]:
    """Return an example of each body, by its struct."""
    submission = json(
        """"type": "send_mail", "queue": "mail", "priority": 1, "delay": "10s",
        "key": "welcome:42", "tags": {"tenant": "7"}""",
        payload=MAIL,
    )
    nodes = {"fetch": {"type": "fetch"}, "report": {"type": "report", "after": ["fetch"]}}
    lease = {"id": JOB_ID, "token": TOKEN}
    return {
        jobs.Submission: submission,
        jobs.Batch: {"jobs": [submission, {"type": "clean_up"}], "atomic": True},
        flows.FlowBody: {"nodes": nodes},
        control.Selection: json('"type": "send_mail", "state": ["delayed"], "dry_run": true'),
        control.RetryBody: {"delay": "1m"},
        control.RetrySelection: json('"type": "send_mail", "state": ["failed"], "dry_run": true'),
        control.EditSelection: json(
            '"type": "send_mail", "state": ["delayed"], "edit": {"priority": "high"}'
        ),
        control.EditBody: json('"priority": "high", "tags": {"tenant": "7"}'),
        control.ReplayAll: {"type": "send_mail", "limit": 100},
        control.DiscardAll: {"type": "send_mail", "expected": 12},
        NewReplay: {"type": "send_mail", "rate": 10, "stop_above": 0.2},
        overview.LimitBody: {"max_running": 10},
        overview.TypeLimitBody: {"rate": "100/m"},
        access.NewTokenBody: json(
            '"name": "deploy", "roles": ["submit", "read"], "queues": ["mail"], "expires": "90d"'
        ),
        access.SessionBody: {"token": f"fp_{12 * '0'}_{48 * '0'}"},
        events.EventBody: json('"payload": {"user_id": 42}, "key": "signup:42"'),
        leases.ClaimBody: json(
            """"queues": {"mail": 3, "bulk": 1}, "types": ["send_mail"], "limit": 10,
            "lease_ttl": "30s", "worker": "w1" """
        ),
        leases.Ack: lease | {"result": {"sent": True}},
        leases.Nack: lease | {"message": "mailbox is full", "retry_after": "5s"},
        leases.WireBeat: lease | {"lease_ttl": "30s"},
        leases.Release: lease,
        leases.Checkpoint: lease | {"checkpoint": {"page": 7}},
        leases.ProgressBody: lease | {"fraction": 0.5, "message": "half way"},
    }
