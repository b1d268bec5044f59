"""New jobs that a running one brings forth, under its lease; and those who gather them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.dependencies import check_depth
from fencepost.core.limits import DEPENDENCY_COUNT_MAX
from fencepost.errors import DependencyBreadthError
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.replies import LeaseLost, Spawned, SpawnReply
from fencepost.store.requests import Spawn
from fencepost.store.sqlite.catalog import Env
from fencepost.store.sqlite.parents import Stored, link
from fencepost.store.sqlite.settling import is_valid, locate, read_token, with_states
from fencepost.store.sqlite.submission import accept
from fencepost.store.sqlite.values import values
from fencepost.store.states import PENDING

FLOW = "select flow from jobs where seq = ?"
# Of each that waits for one job and gathers: what it waits for already.
GATHERERS = f"""
select jobs.seq, jobs.priority, jobs.missing, jobs.depth, known.place, known.parent
from jobs join dependencies as known on known.child = jobs.seq
where jobs.state = {PENDING} and jobs.missing > 0 and jobs.gathers = 1
  and jobs.seq in (select child from dependencies where parent = ?)
order by jobs.seq, known.place
"""
GATHER = """
with gatherer(seq, priority, missing, depth) as ({values})
update jobs
set priority = gatherer.priority, missing = gatherer.missing, depth = gatherer.depth
from gatherer where jobs.seq = gatherer.seq
"""


def spawn(env: Env, spawns: Sequence[Spawn]) -> Plan[list[SpawnReply]]:
    """Store what running jobs spawn, each under a valid lease, or raise DependencyError."""
    now = env.clock.now_us()
    jobs = yield from locate(each.token for each in spawns)
    replies: list[SpawnReply] = []
    for each in spawns:
        seq, _, secret = read_token(each.token)
        if not is_valid(jobs.get(seq), each.job_id, secret, now):
            replies.append(LeaseLost(each.job_id))
            continue
        reply = yield from _spawn(env, each, seq)
        replies.append(reply)
    return (yield from with_states(replies))


def _spawn(env: Env, spawn: Spawn, seq: int) -> Plan[Spawned]:
    ((flow,),) = yield Statement(FLOW, (seq,))
    new = [replace(each, flow=flow) for each in spawn.jobs]
    accepted = yield from accept(env, new, atomic=True)
    yield from _gather(seq, [each.stored for each in accepted])
    return Spawned(spawn.job_id.lower(), tuple(each.reply for each in accepted))


def _gather(seq: int, spawned: Sequence[Stored]) -> Plan[None]:
    """Have those who gather what row *seq* spawns wait for it too."""
    waiting: defaultdict[int, list[Row]] = defaultdict(list)
    for row in (yield Statement(GATHERERS, (seq,))):
        waiting[row[0]].append(row)
    changed: list[tuple[int, int, int, int]] = []
    edges: list[tuple[int, int, int]] = []
    for rows in waiting.values():
        more = _unknown(rows, spawned)
        gatherer, place = rows[0][0], rows[-1][4] + 1
        edges += [(gatherer, place + index, each.seq) for index, each in enumerate(more)]
        if more:
            changed.append(_changed(rows[0], more))
    yield from link(edges)
    for sql, params in values(GATHER, changed):
        yield Statement(sql, params)


def _unknown(rows: Sequence[Row], spawned: Sequence[Stored]) -> list[Stored]:
    """Return those of *spawned* for which a job does not wait yet, each once."""
    gatherer = rows[0][0]
    known = {row[5] for row in rows}
    more = {each.seq: each for each in spawned if each.seq not in known and each.seq != gatherer}
    if len(rows) + len(more) > DEPENDENCY_COUNT_MAX:
        raise DependencyBreadthError(len(rows) + len(more))
    return list(more.values())


def _changed(row: Row, more: Sequence[Stored]) -> tuple[int, int, int, int]:
    seq, priority, missing, depth, *_ = row
    deepest = max(each.parent.depth for each in more)
    return (
        seq,
        min(priority, *(each.parent.priority for each in more)),
        missing + sum(not each.parent.state.is_terminal for each in more),
        check_depth(max(depth, deepest + 1)),
    )
