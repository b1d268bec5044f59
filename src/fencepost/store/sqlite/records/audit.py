"""The audit log: appended to, read, and cut off at its old end."""

from __future__ import annotations

from fencepost.core.access.audit import Action, decode_detail, encode_detail
from fencepost.core.filter import PageRequest
from fencepost.core.values.instants import from_us, seconds_to_us
from fencepost.store.interface.audit import ActionPage
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.positions import cut
from fencepost.store.sqlite.jobs.catalog import Env

COLUMNS = "id, at, principal_id, principal, action, target, detail, request_id, status"
RECORD = f"""
insert into actions({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do nothing
"""
PAGE = f"select seq, {COLUMNS} from actions where seq < ? order by seq desc limit ?"
PRUNE = """
delete from actions where seq in (
  select seq from actions where at <= ? order by at, seq limit ?
) returning seq
"""
END = 2**63 - 1
"""A position after all there are."""


def record(env: Env, action: Action) -> Plan[None]:
    """Append an action, unless it is there."""
    params = (
        action.id,
        env.clock.now_us(),
        action.principal_id,
        action.principal,
        action.action,
        action.target,
        encode_detail(action.detail),
        action.request_id,
        action.status,
    )
    yield Statement(RECORD, params)


def actions(env: Env, page: PageRequest) -> Plan[ActionPage]:
    """Return one page of the log, newest first."""
    after = END if page.after is None else page.after
    rows, position = cut((yield Statement(PAGE, (after, page.limit + 1))), page.limit)
    return ActionPage([_decode(row) for row in rows], position)


def prune(env: Env, keep: float, limit: int) -> Plan[int]:
    """Delete the oldest that were kept long enough."""
    until = env.clock.now_us() - seconds_to_us(keep)
    rows = yield Statement(PRUNE, (until, max(limit, 0)))
    return len(rows)


def _decode(row: Row) -> Action:
    _seq, id_, at, principal_id, principal, action, target, detail, request_id, status = row
    return Action(
        id=id_,
        at=from_us(at),
        principal_id=principal_id,
        principal=principal,
        action=action,
        target=target,
        detail=decode_detail(detail),
        request_id=request_id,
        status=status,
    )
