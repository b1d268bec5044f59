"""Every event and counter, by name. Log lines and metrics use these and no others."""

from __future__ import annotations

from typing import Final

# What happens to jobs. Counted by state or type where that is said.
JOB_ENQUEUED: Final = "job.enqueued"
JOB_DUPLICATE: Final = "job.duplicate"
JOB_CLAIMED: Final = "job.claimed"
JOB_SETTLED: Final = "job.settled"
JOB_FOLLOWED: Final = "job.followed"
"""A job that was let go, or that ended, because one that it waited for had."""
JOB_PROMOTED: Final = "job.promoted"
JOB_CANCELLED: Final = "job.cancelled"
JOB_REOPENED: Final = "job.reopened"
JOB_EDITED: Final = "job.edited"
"""Counted if that put it into another state."""
JOB_REPLAYED: Final = "job.replayed"
JOB_DISCARDED: Final = "job.discarded"
JOB_EXPIRED: Final = "job.expired"
JOB_PRUNED: Final = "job.pruned"
JOB_CORRUPT: Final = "job.corrupt"

# Events.
EVENT_SENT: Final = "event.sent"
EVENT_UNHANDLED: Final = "event.unhandled"
"""No handler of the app that sent it matches its name; it was recorded all the same."""
EVENT_PRUNED: Final = "event.pruned"

# Leases.
LEASE_RECOVERED: Final = "lease.recovered"
"""An expired lease whose job will be tried again."""
LEASE_EXHAUSTED: Final = "lease.exhausted"
"""An expired lease that was the job's last attempt."""
LEASE_LOST: Final = "lease.lost"
STALE_ACK: Final = "stale.ack"
STALE_NACK: Final = "stale.nack"
STALE_RELEASE: Final = "stale.release"
STALE_HEARTBEAT: Final = "stale.heartbeat"
STALE_SAVE: Final = "stale.save"
STALE_SPAWN: Final = "stale.spawn"
REPEATED_SETTLE: Final = "settle.repeated"
"""A settlement sent again after an unknown outcome, which had been recorded."""
SETTLE_FAILED: Final = "settle.failed"
"""A settlement that the store cannot take; its job comes back when the lease runs out."""

# A worker.
WORKER_STARTED: Final = "worker.started"
WORKER_STOPPING: Final = "worker.stopping"
WORKER_STOPPED: Final = "worker.stopped"
ATTEMPT_STARTED: Final = "attempt.started"
ATTEMPT_ENDED: Final = "attempt.ended"
ATTEMPT_INTERRUPTED: Final = "attempt.interrupted"
DELIVERIES_FAILED: Final = "deliveries.failed"
"""A server could not deliver webhooks at all; it begins again."""
BACKOFF_FAILED: Final = "backoff.failed"
"""A backoff function raised, or answered nonsense; the delays worked out before are used."""
ATTEMPT_LEFT_OPEN: Final = "attempt.left_open"
"""A handler called ``complete_in`` and ended, and its transaction did not."""
SLOT_LEAKED: Final = "slot.leaked"
"""A thread outlived its timeout; its slot is gone until it returns."""
SLOT_REGAINED: Final = "slot.regained"
LOOP_LAG: Final = "loop.lag"
CHILD_STARTED: Final = "child.started"
CHILD_DIED: Final = "child.died"
HANDLER_LOG: Final = "handler.log"

METRICS_SERVED: Final = "metrics.served"
"""Where a worker's own metrics and health are to be had."""
METRICS_FAILED: Final = "metrics.failed"
"""A page of a worker's own server that could not be made."""

# The store.
STORE_OPENED: Final = "store.opened"
STORE_UNAVAILABLE: Final = "store.unavailable"
STORE_DEAF: Final = "store.deaf"
"""A pooler stands in the way of wake-ups; whoever waits for news polls."""
STORE_OPERATION: Final = "store.operation"
STORE_OPERATION_SECONDS: Final = "store.operation.seconds"
STORE_OPERATION_FAILED: Final = "store.operation.failed"

# Maintenance.
LEADER_ELECTED: Final = "leader.elected"
LEADER_RESIGNED: Final = "leader.resigned"
CHORE_FAILED: Final = "chore.failed"

# Crons.
CRON_FIRED: Final = "cron.fired"
"""A tick, which has made a job."""
CRON_MISSED: Final = "cron.missed"
"""A cron that was late, by how much, and how many jobs make up for it."""
CRON_OUTDATED: Final = "cron.outdated"
"""A cron that this worker would run at other times than the store says: another app has it."""
CRON_FAILED: Final = "cron.failed"

# The HTTP API.
HTTP_REQUEST: Final = "http.request"
HTTP_REQUEST_SECONDS: Final = "http.request.seconds"
HTTP_ERROR: Final = "http.error"
"""A request that met a bug of ours; its traceback is logged at level DEBUG."""
HTTP_STARTED: Final = "http.started"
HTTP_STOPPING: Final = "http.stopping"
HTTP_STOPPED: Final = "http.stopped"

# Access.
ACCESS_REFUSED: Final = "access.refused"
"""A request without a good token, or with one that is not good for it; counted by code."""
TOKENS_STALE: Final = "tokens.stale"
"""The store is away, and a server goes by the tokens that it read before."""
AUDIT_ACTION: Final = "audit.action"
"""Written before an action and after it: a crash in between leaves the first line."""
AUDIT_FAILED: Final = "audit.failed"
"""An action was done, and the store did not take its record; the line says all of it."""
AUDIT_PRUNED: Final = "audit.pruned"
