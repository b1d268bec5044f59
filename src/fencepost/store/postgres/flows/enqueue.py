"""Storing jobs of flows and jobs that depend on others, whole graphs at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from fencepost.core.flows.dependents import Entry, Parent, enter
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import id_text, wanted_ids
from fencepost.core.values.payload import COMPARED_BYTES_MAX, differences
from fencepost.core.values.times import seconds_to_us
from fencepost.core.webhooks.delivery import DELIVERY_POLICY, DELIVERY_QUEUE, DELIVERY_TYPE
from fencepost.store.interface.queue import Duplicate, Enqueued, EnqueueReply
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.flows.dependents import CALL_BACK, Held, hold, note_waiting
from fencepost.store.postgres.jobs.catalog import Env, JobNumbers, holder_queues
from fencepost.store.postgres.jobs.rows import body_fields, decode_body
from fencepost.store.postgres.limits.concurrency import FreedSlots, admit, key_fields
from fencepost.store.sql.codec import BY_NUMBER, MODE_NUMBER, NUMBER, encode_failure
from fencepost.store.sql.endings import Stored

SEQS = "select array(select nextval('fencepost.seq') from generate_series(1, %s))"
TAKE_KEYS = "select fencepost.take_keys(%s, %s)::text"
ENQUEUE_GRAPH = "select fencepost.enqueue_graph(%s, %s)"
PRIORITIES = """
select distinct lanes.priority from fencepost.submissions j
join fencepost.lanes on lanes.lane = j.lane where j.id = any (%s::uuid[])
"""
# Not the large ones: there may be thousands.
PAYLOADS = f"""
select id::text, payload_encoding, payload, payload_bytes from fencepost.submissions
where id = any (%s::uuid[])
  and coalesce(octet_length(payload), octet_length(payload_bytes)) <= {COMPARED_BYTES_MAX}
"""
CHUNK = 5_000
"""Jobs in one statement."""

DELIVERY = NewJob(type=DELIVERY_TYPE, queue=DELIVERY_QUEUE, policy=DELIVERY_POLICY)
"""Has the lane and the policy of a webhook delivery."""

_encoder = msgspec.json.Encoder()
_holders = msgspec.json.Decoder(list[tuple[int, str] | None])


Holding = Callable[[Sequence[str]], Plan[Held]]


class Keys(NamedTuple):
    """Jobs that have the keys which jobs of a submission did not get, by the places of those."""

    holders: dict[int, tuple[str, State]]
    """The stored job that holds the key instead."""
    twins: dict[int, int]
    """The place of an earlier job of the same submission that has it."""


def is_graph(jobs: Sequence[NewJob]) -> bool:
    """Return whether any of *jobs* depends on others, belongs to a flow or has a callback."""
    return any(job.after or job.flow or job.node or job.callback_url for job in jobs)


def inherited(jobs: Sequence[NewJob]) -> list[NewJob]:
    """Return *jobs*, each as urgent as what it waits for in the same submission.

    So lanes can be numbered beforehand. If another job holds a key, its priority is not known yet,
    and the dependent may turn out less urgent.
    """
    urgent: list[NewJob] = []
    for place, job in enumerate(jobs):
        on = job.after.on if job.after is not None else ()
        # A place that does not come before is refused later, in the order of all checks.
        places = [each for each in on if isinstance(each, int) and 0 <= each < place]
        priority = min([job.priority, *(urgent[each].priority for each in places)])
        urgent.append(job if priority is job.priority else replace(job, priority=priority))
    return urgent


def priorities(jobs: Sequence[NewJob]) -> Plan[list[Priority]]:
    """Return the priorities of stored jobs that *jobs* depend on, to number lanes for them."""
    named = [on for job in jobs if job.after for on in job.after.on if isinstance(on, str)]
    wanted = list(wanted_ids(named).values())
    rows = (yield Statement(PRIORITIES, (wanted,), alone=True, prepares=True)) if wanted else []
    return [Priority(number) for (number,) in rows]


def enqueue(
    env: Env,
    jobs: Sequence[NewJob],
    numbers: JobNumbers,
    *,
    atomic: bool,
    holding: Holding | None = None,
) -> Plan[list[EnqueueReply]]:
    """Store *jobs* in their order, or raise DependencyError; numbered by ``inherited``.

    *holding* locks their dependencies and the jobs that hold their keys, instead of ``hold``.
    """
    fresh = env.clock.new_ids(len(jobs))
    ids = [id_text(job.id or id_) for job, id_ in zip(jobs, fresh, strict=True)]
    ((seqs,),) = yield Statement(SEQS, (len(jobs),))
    keys = yield from _take_keys(env, jobs, seqs)
    awaited = _awaited(jobs, keys)
    if holding is None:
        parents = yield from hold(awaited, is_joined=env.is_joined)
    else:
        parents = yield from holding([*awaited, *(job_id for job_id, _ in keys.holders.values())])
    fields = yield from _fields(env, jobs, numbers, ids, seqs, keys, parents)
    states = yield from _store(env, fields)
    ended = [each["seq"] for each in fields if "ended" in each]
    if ended:
        yield Statement(CALL_BACK, (env.now, ended))
    if env.is_joined:
        yield from note_waiting([each["seq"] for each in fields if each.get("missing")])
    freed = FreedSlots()
    held = (job for place, job in enumerate(jobs) if states.get(ids[place]) is State.PENDING)
    freed.add_held(held)
    for moved in (yield from admit(env, freed)):
        if moved.job_id in states:
            states[moved.job_id] = moved.state
    queues = yield from _holder_queues(jobs, ids, keys)
    # Jobs that are spawned again are recognised by their payloads.
    payloads = yield from _holder_payloads(jobs, ids, keys, reads_stored=holding is None)
    return _replies(jobs, ids, keys, states, queues, payloads, atomic=atomic)


def _fields(
    env: Env,
    jobs: Sequence[NewJob],
    numbers: JobNumbers,
    ids: Sequence[str],
    seqs: Sequence[int],
    keys: Keys,
    parents: Held,
) -> Plan[list[dict[str, Any]]]:
    """Return what is written of each job that got its key, or has none."""
    stored: dict[int, Stored] = {}
    fields: list[dict[str, Any]] = []
    for place, job in enumerate(jobs):
        if place in keys.twins:
            stored[place] = stored[keys.twins[place]]
        elif place in keys.holders:
            if (holder := keys.holders[place][0]) in parents:
                stored[place] = parents[holder]
        else:
            behind = _behind(job, stored, parents)
            entry = _enter(job, behind)
            priority = job.priority if entry is None else entry.priority
            lane = numbers.lane_of(job, priority)
            if lane is None:
                lane = yield from env.catalog.lane_number(job.queue, job.type, priority)
            stored[place] = _as_stored(job, ids[place], seqs[place], entry)
            fields.append(
                {
                    "seq": seqs[place],
                    "id": ids[place],
                    **job_fields(job, lane, numbers.policies[job.policy], priority),
                    "flow": job.flow,
                    "node": job.node,
                    **callback_fields(job.callback_url, numbers),
                    **_entry_fields(entry, behind),
                }
            )
    return fields


def _store(env: Env, fields: Sequence[dict[str, Any]]) -> Plan[dict[str, State]]:
    """Store the jobs; return the state of each by its id."""
    states: dict[str, State] = {}
    for start in range(0, len(fields), CHUNK):
        chunk = fields[start : start + CHUNK]
        ((numbers,),) = yield Statement(ENQUEUE_GRAPH, (env.now, _encoder.encode(chunk).decode()))
        for each, number in zip(chunk, numbers, strict=True):
            states[each["id"]] = BY_NUMBER[number]
    return states


def _take_keys(env: Env, jobs: Sequence[NewJob], seqs: Sequence[int]) -> Plan[Keys]:
    """Take the keys of *jobs*, where they are free."""
    first: dict[tuple[str, str], int] = {}
    twins: dict[int, int] = {}
    asked: dict[int, list[Any]] = {}
    for place, job in enumerate(jobs):
        if job.key is None:
            continue
        earlier = first.setdefault((job.type, job.key.value), place)
        if earlier != place:
            twins[place] = earlier
            continue
        window = None if job.key.window is None else seconds_to_us(job.key.window)
        asked[place] = [job.type, job.key.value, seqs[place], window]
    if not asked:
        return Keys({}, {})
    params = (env.now, _encoder.encode(list(asked.values())).decode())
    ((text,),) = yield Statement(TAKE_KEYS, params)
    holders: dict[int, tuple[str, State]] = {}
    for place, holder in zip(asked, _holders.decode(text), strict=True):
        if holder is not None:
            holders[place] = (holder[1], BY_NUMBER[holder[0]])
    for place, earlier in list(twins.items()):
        if earlier in holders:
            del twins[place]
            holders[place] = holders[earlier]
    return Keys(holders, twins)


def _holder_queues(jobs: Sequence[NewJob], ids: Sequence[str], keys: Keys) -> Plan[dict[str, str]]:
    """Return the queues of the jobs that hold the keys, by their ids."""
    queues = yield from holder_queues(
        (key, holder)
        for place, (holder, _) in keys.holders.items()
        if (key := jobs[place].key) is not None
    )
    return queues | {ids[place]: jobs[place].queue for place in keys.twins.values()}


def _holder_payloads(
    jobs: Sequence[NewJob], ids: Sequence[str], keys: Keys, *, reads_stored: bool
) -> Plan[dict[str, Body | None]]:
    """Return the payloads of the jobs that hold the keys, by their ids; None if too large."""
    payloads: dict[str, Body | None] = {
        ids[place]: jobs[place].payload for place in keys.twins.values()
    }
    stored = sorted({holder for holder, _ in keys.holders.values()})
    if reads_stored and stored:
        payloads |= dict.fromkeys(stored)
        rows = yield Statement(PAYLOADS, (stored,))
        payloads |= {job_id: decode_body(*payload) for job_id, *payload in rows}
    return payloads


def _awaited(jobs: Sequence[NewJob], keys: Keys) -> list[str]:
    """Return the ids of stored jobs that *jobs* depend on."""
    ids: dict[str, None] = {}
    for job in jobs:
        for on in job.after.on if job.after is not None else ():
            if isinstance(on, str):
                ids[on] = None
            elif on in keys.holders:
                ids[keys.holders[on][0]] = None
    return list(ids)


def _behind(job: NewJob, stored: dict[int, Stored], parents: Held) -> list[Stored]:
    """Return what *job* depends on."""
    found: dict[int, Stored] = {}  # each once: an id, a place and a key may name the same job
    for on in job.after.on if job.after is not None else ():
        each = stored[on] if isinstance(on, int) else parents[on.lower()]
        found[each.seq] = each
    return list(found.values())


def _enter(job: NewJob, behind: Sequence[Stored]) -> Entry | None:
    if job.after is None or not behind:
        return None
    parents = [each.parent for each in behind]
    return enter(job.after.mode, job.priority, parents, gathers=job.after.gathers)


def _as_stored(job: NewJob, job_id: str, seq: int, entry: Entry | None) -> Stored:
    if entry is None:  # dependents do not care whether it is due
        return Stored(seq, Parent(job_id, State.SCHEDULED, job.priority))
    decision = entry.decision
    state = State.PENDING if decision is None else decision.state
    failure = None if decision is None else decision.failure
    return Stored(seq, Parent(job_id, state, entry.priority, entry.waits.depth, failure))


def job_fields(job: NewJob, lane: int, policy: int, priority: Priority) -> dict[str, Any]:
    """Return the fields of a job that differs from others of its batch."""
    key = job.key
    encoding, payload, data = body_fields(job.payload)
    return {
        "lane": lane,
        "policy": policy,
        "max_attempts": job.policy.max_attempts,
        "delay": seconds_to_us(job.delay),
        "run_at": job.run_at,
        "lifetime": seconds_to_us(job.policy.lifetime),
        "key": None if key is None else key.value,
        "key_window": None if key is None or key.window is None else seconds_to_us(key.window),
        "correlation_id": job.correlation_id,
        "tags": job.tags or None,
        "submitter": job.submitter,
        "payload_encoding": encoding,
        "payload": payload,
        "payload_hex": None if data is None else data.hex(),
        # That of its lane, which may not be visible to the transaction.
        "priority": int(priority),
        **key_fields(job),
    }


def callback_fields(url: str | None, numbers: JobNumbers) -> dict[str, Any]:
    """Return how the webhook of a job is delivered, if it has one."""
    if url is None:
        return {}
    lane, policy = numbers.of(DELIVERY)
    lifetime = seconds_to_us(DELIVERY_POLICY.lifetime)
    how = [lane, policy, DELIVERY_POLICY.max_attempts, lifetime]
    return {"callback_url": url, "callback": how}


def with_delivery(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return everything that needs numbers before *jobs* are stored."""
    has_callbacks = any(job.callback_url is not None for job in jobs)
    return [*jobs, DELIVERY] if has_callbacks else jobs


def _entry_fields(entry: Entry | None, behind: Sequence[Stored]) -> dict[str, Any]:
    if entry is None:
        return {}
    waits, decision = entry.waits, entry.decision
    fields: dict[str, Any] = {
        "mode": MODE_NUMBER[waits.mode],
        "depth": waits.depth,
        "gathers": waits.gathers or None,
        "missing": waits.missing,
        "own_priority": waits.own_priority,
        "parents": [each.seq for each in behind],
    }
    if decision is not None:
        fields |= {
            "ended": NUMBER[decision.state],
            "failure": encode_failure(decision.failure),
            "is_dead_letter": decision.state in DEAD or None,
        }
    return fields


def _replies(
    jobs: Sequence[NewJob],
    ids: Sequence[str],
    keys: Keys,
    states: dict[str, State],
    queues: dict[str, str],
    payloads: dict[str, Body | None],
    *,
    atomic: bool,
) -> list[EnqueueReply]:
    replies: list[EnqueueReply] = []
    for place, job in enumerate(jobs):
        holder = keys.holders.get(place)
        if place in keys.twins:
            twin = ids[keys.twins[place]]
            holder = (twin, states[twin])
        if holder is None:
            replies.append(Enqueued(ids[place], job.type, states[ids[place]]))
            continue
        assert job.key is not None
        job_id, state = holder
        is_rejected = job.key.refuses(queues.get(job_id))
        differs = differences(payloads.get(job_id, job.payload), job.payload)
        found = Duplicate(job_id, job.type, job.key.value, state, is_rejected, differs)
        if atomic and is_rejected:
            raise found.error
        replies.append(found)
    return replies
