"""Claims: chores first, then as many jobs as shares and limits allow, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import (
    CLAIM_BYTES_MAX,
    CLAIM_MAX,
    EXPIRE_BATCH,
    LEFT_PAUSE,
    PROMOTE_BATCH,
    RECOVER_BATCH,
)
from fencepost.core.job.job import ClaimedJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import CORRUPT, RELEASED, Decision
from fencepost.core.limits.weights import turns_from
from fencepost.core.values.names import RESERVED_TYPES
from fencepost.core.values.times import seconds_to_us
from fencepost.store.chores import Chores
from fencepost.store.interface.queue import Claim, ClaimRequest, Moved
from fencepost.store.plan import Plan, Statement
from fencepost.store.postgres.engine.transaction import sheltered
from fencepost.store.postgres.flows.dependents import end, resolve
from fencepost.store.postgres.jobs.catalog import Env, Lanes
from fencepost.store.postgres.jobs.finish import DETACH_LEASED, detached
from fencepost.store.postgres.jobs.lease import LeasedRow, LeaseReader, array
from fencepost.store.postgres.jobs.upkeep import expire, recover
from fencepost.store.sql.endings import Ending, moved

CLAIM = "select fencepost.claim(%s, %s, %s)"
CLAIM_AFTER = "select fencepost.claim_after(%s, %s, %s, %s)"
LEASED = """
select j.seq, j.payload from fencepost.leases e cross join lateral unnest(e.seqs) as x(seq)
join fencepost.submissions j on j.seq = x.seq where e.lease_token = %s
"""
LOOKS_MAX = 3
"""How often one claim learns of new lanes, in case other processes keep making some."""
CHORES = {"expire": 1, "recover": 2, "resolve": 4}
"""What a claim may do first, by its bit in the request."""


class _Answer(msgspec.Struct):
    todo: str | None = None
    now: int = 0
    promoted: int = 0
    held: int = 0
    jobs: list[tuple[int, list[LeasedRow]]] = []
    order: list[int] | None = None
    wait: float | None = None
    plain: bool = False
    failed: str | None = None
    """Why due jobs could not be promoted, or slots not be given away."""


_answers = msgspec.json.Decoder(_Answer)


def claim(env: Env, request: ClaimRequest) -> Plan[Claim]:
    """Recover, expire and promote what is due, then lease up to ``request.limit`` jobs.

    A chore that fails is left for later.
    """
    chores, lease_token = env.chores, env.clock.new_id().hex()
    moves: dict[str, list[Moved]] = {name: [] for name in CHORES}
    todo = sum(bit for name, bit in CHORES.items() if chores.may(name))
    promote = PROMOTE_BATCH if chores.may("promote") else 0
    looks = LOOKS_MAX
    damaged: list[Moved] = []
    while True:
        params = _params(env, request, lease_token, todo, promote, asks=looks > 0)
        if request.after is None:
            ((text,),) = yield Statement(CLAIM, params, alone=True)
        else:
            ((text,),) = yield Statement(CLAIM_AFTER, (*params, request.after), alone=True)
        try:
            answer = _answers.decode(text)
        except msgspec.DecodeError:
            failed = yield from _fail_damaged(env, lease_token)
            if not failed:
                raise
            damaged += failed
            lease_token = env.clock.new_id().hex()
            continue
        if answer.todo is None:
            break
        if answer.todo == "lanes":
            yield from env.catalog.learn_lanes(request.queues, request.types)
            looks -= 1
        else:
            moves[answer.todo] = yield from _chore(env, answer.todo)
            todo &= ~CHORES[answer.todo]
    if answer.failed is not None:
        chores.failed("promote", answer.failed)
    elif promote:
        chores.done("promote")
    jobs, corrupt, waits = yield from _read(env, request, lease_token, answer)
    corrupt += damaged
    if answer.wait is not None:
        waits.append(answer.wait)
    return Claim(
        jobs=jobs,
        recovered=moves["recover"],
        expired=moves["expire"],
        promoted=answer.promoted,
        held=answer.held,
        corrupt=corrupt,
        followed=moves["resolve"],
        wait=chores.wait(max(min(waits), 0.0) if waits else None),
        place=_place(answer),
    )


def _chore(env: Env, name: str) -> Plan[list[Moved]]:
    """Do what the server has found to be due."""
    if name == "recover":
        return (yield from _moved(env.chores, name, recover(env, RECOVER_BATCH)))
    if name == "expire":
        return (yield from _moved(env.chores, name, expire(env, EXPIRE_BATCH)))
    followed, has_left = yield from sheltered(env.chores, name, resolve(env), ([], False))
    if has_left:
        env.chores.postpone(name, LEFT_PAUSE)
    return followed


def _moved(chores: Chores, name: str, chore: Plan[list[Moved]]) -> Plan[list[Moved]]:
    """Do a chore; postpone the next if it could move nothing.

    Another transaction, perhaps a caller's, has locked the jobs for an unknown time.
    """
    moved = yield from sheltered(chores, name, chore, None)
    if moved == []:
        chores.postpone(name, LEFT_PAUSE)
    return moved or []


def _place(answer: _Answer) -> int | None:
    """Return the last job of a claim, 0 if they came from several lanes, None if there are none."""
    if not answer.plain or not answer.jobs:
        return None
    if len(answer.jobs) > 1:
        return 0
    _, leased = answer.jobs[0]
    return leased[-1].seq


class _View(NamedTuple):
    """Where a claim looks: the same in every claim of a worker."""

    known: int
    served: str
    """``fencepost.served_lanes``."""


def _params(
    env: Env, request: ClaimRequest, lease_token: str, todo: int, promote: int, *, asks: bool
) -> tuple[Any, ...]:
    limit = max(min(request.limit, CLAIM_MAX), 0)
    queues, types = request.queues, request.types
    if queues is None:
        row, turns = None, min(limit, 1)
    else:
        row = turns_from(queues, request.turn) if queues else ()
        turns = min(limit, len(row))
    key = (row, types, request.own_types, turns)
    view = env.catalog.view(key, lambda lanes: _view(lanes, request, row, limit))
    ttl, grace = seconds_to_us(request.lease_ttl), seconds_to_us(request.timeout_grace)
    asked = (
        f"({_quoted(request.worker)},{lease_token},{ttl},{grace},{CLAIM_BYTES_MAX},{limit},"
        f"{request.turn},{view.known if asks else ''},{todo},{promote})"
    )
    return env.now, asked, view.served


def _view(
    remembered: Lanes, request: ClaimRequest, row: tuple[str, ...] | None, limit: int
) -> _View:
    known = lanes = remembered.of(request.queues, request.types)
    if not request.own_types:
        lanes = [lane for lane in known if not lane.type.startswith(RESERVED_TYPES)]
    turns = row or tuple(sorted({lane.queue for lane in lanes}))
    places = {queue: place for place, queue in enumerate(dict.fromkeys(turns), 1)}
    lanes = sorted(lanes, key=lambda lane: (places[lane.queue], lane.priority, lane.number))
    # Only the server knows which of several queues have claimable jobs, and so a turn.
    is_open = row is None and len(places) > 1
    fields = (
        array(lane.number for lane in lanes),
        array(lane.priority for lane in lanes),
        array(places[lane.queue] for lane in lanes),
        array(map(_quoted, places)),
        "" if is_open else array(places[queue] for queue in turns[:limit]),
        "" if request.types is None else array(map(_quoted, request.types)),
        str(request.queues is None),
    )
    served = ",".join(field and _quoted(field) for field in fields)
    return _View(sum(lane.number for lane in known), f"({served})")


def _quoted(text: str) -> str:
    """Return *text* as an element of an array or of a row."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read(
    env: Env, request: ClaimRequest, lease_token: str, answer: _Answer
) -> Plan[tuple[list[ClaimedJob], list[Moved], list[float]]]:
    """Return the jobs of a claim in order, those that cannot be read, and how long leases last.

    Jobs that cannot be read are failed.
    """
    if not answer.jobs:
        return [], [], []
    lanes = yield from env.catalog.lanes([lane for lane, _ in answer.jobs])
    numbers = {job.policy for _, leased in answer.jobs for job in leased}
    policies = yield from env.catalog.policies(numbers)
    reader = LeaseReader(policies, lease_token, request, answer.now)
    jobs: list[ClaimedJob] = []
    broken: list[LeasedRow] = []
    by_seq: dict[int, ClaimedJob] = {}
    for number, leased in answer.jobs:
        for row, job in zip(leased, reader.read_all(leased, lanes[number]), strict=True):
            if job is None:
                broken.append(row)
            elif answer.order is None:
                jobs.append(job)
            else:
                by_seq[row.seq] = job
    if answer.order is not None:
        jobs = [by_seq[seq] for seq in answer.order if seq in by_seq]
    corrupt = yield from _fail(env, lease_token, broken)
    return jobs, corrupt, reader.lengths()


def _fail(env: Env, lease_token: str, rows: Sequence[LeasedRow]) -> Plan[list[Moved]]:
    """Fail jobs that cannot be read, so that the worker can go on."""
    if not rows:
        return []
    seqs = [row.seq for row in rows]
    return (yield from _end(env, lease_token, seqs, dict.fromkeys(seqs, CORRUPT)))


def _fail_damaged(env: Env, lease_token: str) -> Plan[list[Moved]]:
    """Fail the jobs whose payloads spoil the reply to a claim, and give back the others."""
    leased = yield Statement(LEASED, (lease_token,))
    decisions = {seq: RELEASED if _is_json(payload) else CORRUPT for seq, payload in leased}
    if CORRUPT not in decisions.values():
        return []
    moves = yield from _end(env, lease_token, list(decisions), decisions)
    return [move for move in moves if move.state is not State.SCHEDULED]


def _is_json(payload: str | None) -> bool:
    """Tell whether *payload* is one value, or missing, as it is if there are bytes instead."""
    try:
        return payload is None or len(_values.decode(f"[{payload}]")) == 1
    except msgspec.DecodeError:
        return False


_values = msgspec.json.Decoder(list[msgspec.Raw])


def _end(
    env: Env, lease_token: str, seqs: Sequence[int], decisions: dict[int, Decision]
) -> Plan[list[Moved]]:
    """End the leases of these jobs of a claim."""
    group = f'[["{lease_token}","{array(seqs)}"]]'
    jobs = detached((yield Statement(DETACH_LEASED, (env.now, group))))
    endings = [Ending(job, decisions[job.seq]) for job in jobs]
    followed = yield from end(env, endings)
    moves = yield from moved(env, endings, followed)
    return [replace(move, was=State.SCHEDULED) for move in moves]
