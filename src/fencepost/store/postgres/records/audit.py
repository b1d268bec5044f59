"""The audit log: appended to by servers, read, and cut off at its old end.

Nobody can change it, and workers can neither add to it nor delete what is younger than a week:
they prune it through a function that has its owner's rights.
"""

from __future__ import annotations

from fencepost.core.access.audit import Action, decode_detail, encode_detail
from fencepost.core.filter import PageRequest
from fencepost.core.values.instants import seconds_to_us
from fencepost.store.interface.audit import ActionPage
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.jobs.catalog import Env
from fencepost.store.postgres.jobs.rows import utc
from fencepost.store.sql.positions import cut

RECORD = """
insert into fencepost.action(
  id, at, principal_id, principal, action, target, detail, request_id, status)
values (%s, coalesce(%s::timestamptz, clock_timestamp()), %s, %s, %s, %s, %s, %s, %s)
on conflict (id) do nothing
"""
PAGE = """
select seq, id::text, at, principal_id, principal, action, target, detail, request_id, status
from fencepost.action where seq < coalesce(%s::bigint, 9223372036854775807)
order by seq desc limit %s
"""
PRUNE = "select fencepost.prune_actions(%s::timestamptz, %s::bigint, %s::integer)"


def record(env: Env, action: Action) -> Plan[None]:
    """Append an action, unless it is there."""
    params = (
        action.id,
        env.now,
        action.principal_id,
        action.principal,
        action.action,
        action.target,
        encode_detail(action.detail),
        action.request_id,
        action.status,
    )
    yield Statement(RECORD, params, alone=True)


def actions(env: Env, page: PageRequest) -> Plan[ActionPage]:
    """Return one page of the log, newest first."""
    asked = Statement(PAGE, (page.after, page.limit + 1), alone=True)
    rows, position = cut((yield asked), page.limit)
    return ActionPage([_decode(row) for row in rows], position)


def prune(env: Env, keep: float, limit: int) -> Plan[int]:
    """Delete the oldest that were kept long enough, and for ``AUDIT_KEPT_MIN``."""
    asked = Statement(PRUNE, (env.now, seconds_to_us(keep), max(limit, 0)), alone=True)
    ((count,),) = yield asked
    return int(count)


def _decode(row: Row) -> Action:
    _seq, id_, at, principal_id, principal, action, target, detail, request_id, status = row
    return Action(
        id=id_,
        at=utc(at),
        principal_id=principal_id,
        principal=principal,
        action=action,
        target=target,
        detail=decode_detail(detail),
        request_id=request_id,
        status=status,
    )
