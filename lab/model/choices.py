"""What sequences are made of: few names and few numbers, so that things meet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from fencepost.core.access.audit import Action
from fencepost.core.access.bounds import TOKEN_KEPT
from fencepost.core.access.tokens import Role
from fencepost.core.events import NewEvent
from fencepost.core.filter import JobFilter
from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, Category, Encoding, Failure, NewJob, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Outcome, Released, Snoozed, Succeeded, Unreadable
from fencepost.core.job.policy import Backoff, Policy, Priority
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.settings import Scope
from fencepost.testing.clock import START

INSTANT = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)


class Wish(msgspec.Struct, frozen=True):
    """What a new job is to wait for, before anybody knows what there is."""

    stored: tuple[int, ...]
    """Which of the stored jobs, newest first, round and round."""
    places: tuple[int, ...]
    """Which of the earlier jobs of the same submission, round and round."""
    mode: Mode
    gathers: bool


TYPES = ("mail", "report")
QUEUES = ("default", "bulk", "slow")
WORKERS = ("w1", "w2")
NAMES = (*QUEUES, *TYPES, "unheard of")

POLICIES = (
    Policy(max_attempts=1),
    Policy(max_attempts=2, backoff=Backoff("constant", 2.0), timeout=8.0),
    Policy(max_attempts=3, backoff=Backoff("exponential", 1.0, max_delay=3.0), lease_ttl=4.0),
    Policy(max_attempts=3, backoff=Backoff("linear", 0.0)),
    Policy(max_attempts=5, on_system=False, lifetime=20.0),
    Policy(
        max_attempts=4,
        backoff=Backoff("custom", delays=(0.5, 10.0)),
        on_timeout=False,
        timeout=3.0,
        lifetime=6.0,
    ),
)
BODIES = (
    Body(b"{}"),
    Body(b'{"n":1,"text":"\\u0000 \xc3\xa9"}'),
    Body(b"\x00\xff{", Encoding.BINARY),
    Body(b"", Encoding.BINARY),
    Body(b'"x"'),
    Body(b"null"),
)
FAILURES = (
    Failure(Category.TEMPORARY, "trouble", code="503", exception="pkg.Trouble", traceback="…"),
    Failure(Category.PERMANENT, "never 'again' \x00 \\ %s", code=None),
    Failure(Category.TIMEOUT, "too slow", code="execution_timeout"),
    Failure(Category.SYSTEM, "process died"),
)
TAGS: tuple[dict[str, str], ...] = ({}, {"team": "a"}, {"team": "b", "größe": "'; %s"})

jobs = st.integers(0, 9)
"""Which of the jobs, newest first, round and round."""
strangers = st.sampled_from(("unknown", "malformed", "upper"))
"""Ids that are none, and one that is written otherwise."""
references = st.lists(st.one_of(jobs, jobs, jobs, jobs, strangers), min_size=1, max_size=3)
grips = st.integers(0, 5)
"""Which of the leases that were ever given, newest first."""
counts = st.sampled_from((1, 2, 3, 10, 0))
limits = st.sampled_from((100, 1, 2, 0))
ttls = st.sampled_from((5.0, 1.0, 30.0))
maybe_ttls = st.sampled_from((5.0, None, 1.0, 30.0))
graces = st.sampled_from((0.0, 0.0, 2.0))
offsets = st.sampled_from((0, -1, 1))
"""Instants before or after a time at which something happens."""
steps = st.sampled_from((0.000001, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0, 3600.0))
delays = st.sampled_from((0.0, 0.0, 0.0, 1.0, 5.0, 6.0))
priorities = st.sampled_from(Priority)
bodies = st.sampled_from(BODIES)
tags = st.sampled_from(TAGS)
types = st.sampled_from(TYPES)
queues = st.sampled_from(QUEUES)
workers = st.sampled_from(WORKERS)
names = st.sampled_from(NAMES)
scopes = st.sampled_from((Scope.QUEUE, Scope.TYPE, Scope.APP))
bounds = st.sampled_from((None, 1, 2, 3, 0))
rates = st.one_of(
    st.none(),
    st.builds(Rate, st.sampled_from((1, 2, 3, 5)), st.sampled_from((1.0, 5.0, 60.0, 0.5))),
    st.builds(Rate, st.sampled_from((1, 2, 0)), st.just(2.0)),
)
type_limits = st.dictionaries(
    st.sampled_from((*TYPES, "unheard of")),
    st.builds(TypeLimits, rate=rates),
    min_size=1,
    max_size=2,
)
maybe_types = st.sampled_from((None, None, frozenset(TYPES[:1]), frozenset(TYPES[1:]), frozenset()))
maybe_queues = st.sampled_from(
    (None, None, {"default": 1}, {"bulk": 3, "default": 1}, {"slow": 2, "bulk": 4, "default": 2})
)
keeps = st.sampled_from(
    (
        dict.fromkeys((State.COMPLETED, State.CANCELLED, State.FAILED, State.DEAD_LETTER), 0.0),
        {State.COMPLETED: 1.0, State.CANCELLED: 5.0},
        {State.FAILED: 2.0, State.DEAD_LETTER: 0.0},
    )
)
progresses = st.sampled_from(
    (None, Progress(fraction=0.5, message=""), Progress(fraction=1.0, message="done \x00"))
)
callback_urls = st.sampled_from((None, None, None, "https://example.com/hook?größe=\U0001f9ed"))
concurrency_keys = st.sampled_from((None, None, None, "k1", "k2"))
max_running = st.sampled_from((None, 1, 2))
maybe_bodies = st.one_of(st.none(), bodies)

keys = st.builds(
    Key,
    st.sampled_from(("a", "b")),
    st.sampled_from((None, 3.0, 30.0)),
    st.sampled_from(OnDuplicate),
)


def _new_job(values: dict[str, Any]) -> NewJob:
    run_in, max_running = values.pop("run_in"), values.pop("max_running")
    run_at = None if run_in is None else START + timedelta(seconds=run_in)
    return _keyed(NewJob(run_at=run_at, **values), values["concurrency_key"], max_running)


def _keyed(job: NewJob, key: str | None, max_running: int | None) -> NewJob:
    """Return *job* with a concurrency key, if there is one, whose limit its policy has."""
    policy = job.policy
    if key is not None:
        policy = msgspec.structs.replace(policy, max_running_per_key=max_running)
    return msgspec.structs.replace(job, concurrency_key=key, policy=policy)


new_jobs = st.fixed_dictionaries(
    {
        "type": types,
        "payload": bodies,
        "queue": queues,
        "priority": priorities,
        "policy": st.sampled_from(POLICIES),
        "delay": delays,
        "run_in": st.sampled_from((None, None, None, -5.0, 3.0, 100.0)),
        "key": st.one_of(st.none(), keys),
        "tags": tags,
        "correlation_id": st.sampled_from((None, "c1")),
        "flow": st.sampled_from((None, None, "f1", "f2")),
        "node": st.sampled_from((None, None, "first")),
        "callback_url": callback_urls,
        "concurrency_key": concurrency_keys,
        "max_running": max_running,
    }
).map(_new_job)
edits = st.fixed_dictionaries(
    {},
    optional={
        "priority": priorities,
        "tags": tags,
        "run_at": st.sampled_from((-5.0, 0.5, 3.0, 6.0, 20.0, 100.0)).map(
            lambda seconds: START + timedelta(seconds=seconds)
        ),
        "payload": bodies,
        "correlation_id": st.sampled_from(("", "c1", "c2")),
        "callback_url": st.sampled_from(("", "https://example.com/other")),
    },
)
sturdy_jobs = st.builds(
    _keyed,
    st.builds(
        NewJob,
        type=types,
        queue=queues,
        priority=priorities,
        policy=st.sampled_from(POLICIES[1:4]),
        callback_url=callback_urls,
    ),
    concurrency_keys,
    max_running,
)
"""Jobs that can be claimed at once, and again after a failure."""
modes = st.sampled_from((Mode.ALL, Mode.ALL, Mode.ALL, Mode.ANY, Mode.ENDED))
wishes = st.builds(
    Wish,
    st.lists(jobs, max_size=3).map(tuple),
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
    modes,
    st.booleans(),
)
Wished = tuple[NewJob, Wish | None]
submissions = st.lists(st.tuples(new_jobs, st.one_of(st.none(), wishes)), min_size=1, max_size=4)
graphs = st.lists(st.tuples(sturdy_jobs, wishes), min_size=1, max_size=5)
"""Jobs that can be claimed as soon as they are let go."""
spawn_keys = st.lists(st.sampled_from(("s1", "s2", "s3")), min_size=1, max_size=3, unique=True)

event_names = st.sampled_from(("user.created", "user.deleted"))
new_events = st.builds(NewEvent, event_names, bodies, st.sampled_from((None, "a")))
handlers = st.lists(new_jobs, max_size=3)

outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Succeeded, bodies),
    st.builds(Failed, st.sampled_from(FAILURES), st.sampled_from((None, 7.0))),
    st.builds(Snoozed, st.sampled_from((0.0, 2.0, 50.0))),
    st.builds(
        Unreadable,
        st.just(Failure(Category.SYSTEM, "unread", code="unreadable_payload")),
        st.integers(0, 20),
        st.sampled_from((0.0, 3599.0, 3600.0)),
    ),
    st.just(Released()),
)
filters = st.builds(
    JobFilter,
    states=st.sampled_from(
        (
            (),
            (State.SCHEDULED,),
            (State.RUNNING, State.RETRYING),
            (State.DEAD_LETTER, State.PENDING),
        )
    ),
    type=st.one_of(st.none(), types),
    queue=st.one_of(st.none(), queues),
    tags=tags,
    correlation_id=st.sampled_from((None, "c1")),
    flow=st.sampled_from((None, None, "f1")),
    key=st.sampled_from((None, None, None, "a", "b")),
    id_prefix=st.sampled_from((None, None, "a", "abcd", "7")),  # see ``StoppedClock.new_id``
    created_after=st.sampled_from((None, None, START, START + INSTANT, START + 5 * SECOND)),
    created_before=st.sampled_from((None, None, START + 3 * SECOND, START + 60 * SECOND)),
)
worker_infos = st.builds(
    WorkerInfo,
    id=workers,
    host=st.just("host"),
    pid=st.just(7),
    queues=maybe_queues,
    types=st.sampled_from((TYPES, TYPES[:1], ())),
    concurrency=st.just(4),
    started_at=st.just(START),
    running=st.sampled_from((0, 3)),
)

cron_names = st.sampled_from(("daily", "hourly", "unheard of"))
cron_times = st.sampled_from((("@daily", "UTC"), ("@daily", "Asia/Tokyo"), ("@hourly", "UTC")))
cron_ticks = st.sampled_from((None, -5.0, 0.0, 10.0, 3600.0))
"""Seconds from now; a store does not ask whether a tick is one."""
cron_jobs = st.lists(new_jobs, max_size=2).map(tuple)

token_ids = st.sampled_from(("00aa00aa00aa", "0bb00bb00bb0", "ffffffffffff"))
strange_token_ids = st.sampled_from(("", "no id \x00", "0BB00BB00BB0"))
tokens = st.fixed_dictionaries(
    {
        "id": token_ids,
        "name": st.sampled_from(("ci", "größe '; %s")),
        "digest": st.sampled_from((bytes(32), bytes(32), bytes(range(32)))),
        "roles": st.sampled_from(((Role.WORK,), (Role.SUBMIT, Role.READ), tuple(Role))),
        "queues": st.sampled_from((None, ("bulk",), ("default", "slow"))),
        "rate": st.sampled_from((None, 0.5, 100.0)),
    }
)
token_ends = st.sampled_from((None, None, None, 5.0, -TOKEN_KEPT, 5.0 - TOKEN_KEPT))
"""Seconds from now; what ended long ago is forgotten, or soon will be."""
actions = st.builds(
    Action,
    id=st.sampled_from([f"5eed0000-0000-4000-8000-00000000000{number}" for number in range(4)]),
    principal_id=st.one_of(st.none(), token_ids),
    principal=st.sampled_from(("ci", "local")),
    action=st.sampled_from(("job.cancel", "queue.pause")),
    target=st.sampled_from(("", "größe '; %s")),
    detail=st.sampled_from(({}, {"limit": 3, "names": ["größe", None]})),
    request_id=st.sampled_from((None, "r1")),
    status=st.sampled_from((None, 200, 409)),
)
