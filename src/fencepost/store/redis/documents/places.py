"""Where a job is found: its entries in indexes and counters, computed from its document and lease.

A commit writes the difference between before and after, so that no operation can forget an index.
"""

from __future__ import annotations

from fencepost.core.job.lifecycle import ACTIVE, TERMINAL, State
from fencepost.store.redis.documents.document import Document, LeaseRecord
from fencepost.store.redis.jobs.catalog import REMEMBERED_MAX, Env, field, number_text
from fencepost.store.sql.codec import BY_NUMBER, NUMBER

BLOCK = 256
"""Jobs of consecutive numbers whose lifetimes are looked at together; see ``lifetimes``."""


class Places:
    """Where the indexes and counters have a job."""

    __slots__ = ("counted", "flow", "lane", "lifetime", "run_at", "sorted")

    def __init__(self) -> None:
        self.sorted: dict[bytes, int] = {}
        """The score in each sorted set that has the job."""
        self.counted: list[tuple[bytes, bytes]] = []
        """The counters that it raises by one: a hash and a field."""
        self.lane: bytes | None = None
        """The lane in which it can be claimed."""
        self.run_at = 0
        """Its place in that lane."""
        self.flow: str | None = None
        """Its flow, which the list of flows has as long as it has jobs."""
        self.lifetime: int | None = None
        """When it expires, unless it ends before. The index has the first such time of each block
        of jobs, and is allowed to have an earlier one: it is corrected when that has come. So
        it takes no memory for a job, and no write when one ends."""


NOWHERE = Places()


def ready_lane(document: Document) -> bytes:
    """Return the name of the line in which a claimable job stands."""
    return field(document.priority, document.queue_name, document.type)


def places(env: Env, seq: int, document: Document, lease: LeaseRecord | None) -> Places:
    """Return where a job in this state has to be found."""
    found = Places()
    state = State.RUNNING if lease is not None else BY_NUMBER[document.number]
    queue, type_ = document.queue_name, document.type
    key = document.concurrency_key
    put = found.sorted
    is_held = False
    if lease is not None:
        put[env.key("leases")] = lease.expires_at
        put[env.key("leases", queue)] = lease.expires_at
    elif state is State.SCHEDULED:
        found.lane, found.run_at = ready_lane(document), document.run_at
    elif state is State.DELAYED or state is State.RETRYING:
        put[env.key("due")] = document.run_at
    elif state is State.PENDING and key is not None:
        is_held = not (document.waits and document.waits[1])
        if is_held:
            put[held_key(env, type_, key, document.priority)] = document.run_at
    if state in TERMINAL:
        put[env.key("ended")] = document.completed_at or 0
        if document.is_dead_letter:
            put[env.key("dead")] = document.completed_at or 0
    else:
        found.lifetime = document.expires_at
    if document.tags is not None:
        for name, value in document.tags.items():
            put[env.key("tag", name, value)] = seq
    if document.flow is not None:
        put[env.key("flow", document.flow)] = seq
        found.flow = document.flow
    if document.correlation_id is not None:
        put[env.key("correlation", document.correlation_id)] = seq
    found.counted.append((env.key("counts"), field(NUMBER[state], queue, type_)))
    if key is not None and state in ACTIVE:
        found.counted.append((env.key("active"), field(type_, key)))
    elif is_held:
        found.counted.append((env.key("held"), field(type_, key)))
    return found


def running_places(env: Env, seq: int, document: Document, lease: LeaseRecord | None) -> Places:
    """Return the same for a job whose lease is about to go, shared by those that are alike.

    The times in it are those of one of them, and say nothing.
    """
    if not is_simple(document):
        return places(env, seq, document, lease)
    alike = (env.prefix, document.queue_name, document.type)
    found = _running.get(alike)
    if found is None:
        if len(_running) >= REMEMBERED_MAX:
            _running.clear()
        found = _running[alike] = places(env, seq, document, lease)
    return found


def is_simple(document: Document) -> bool:
    """Tell whether a job is found by its state, queue and type alone."""
    return (
        document.tags is None
        and document.flow is None
        and document.correlation_id is None
        and document.concurrency_key is None
    )


_running: dict[tuple[bytes, str, str], Places] = {}


def held_key(env: Env, type: str, key: str, priority: int) -> bytes:
    """Return the line of jobs that wait for a slot of a concurrency key."""
    return env.key("held", str(priority), type, key)


def letters_key(env: Env, type: str) -> bytes:
    """Return the stream of a type's dead letters (S3-23)."""
    return env.prefix + b"fn:" + type.encode() + b":dlq"


def attempts_key(env: Env, seq: int) -> bytes:
    return env.key("attempts", number_text(seq))
