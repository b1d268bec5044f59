"""Pauses and limits of queues, types and the whole store."""

from __future__ import annotations

from typing import Any, NamedTuple

from fencepost.core.limits.concurrency import check_max_running
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.errors import ConfigurationError
from fencepost.store.interface.settings import Scope
from fencepost.store.plan import Plan, Statement
from fencepost.store.sql.codec import SqlEnv, decode_limits

PAUSE = "insert into {}pauses(scope, name) values (?, ?) on conflict do nothing"
RESUME = "delete from {}pauses where scope = ? and name = ?"
IS_PAUSED = "select 1 from {}pauses where scope = ? and name = ?"
PAUSED = "select name from {}pauses where scope = ?"
SET_LIMIT = """
insert into {}limits(scope, name, max_running) values (?, ?, ?)
on conflict (scope, name) do update set max_running = excluded.max_running
"""
CLEAR_LIMIT = "delete from {}limits where scope = ? and name = ?"
GET_LIMIT = "select max_running from {}limits where scope = ? and name = ?"
QUEUE_LIMITS = "select name, max_running from {}limits where scope = 'queue'"
TYPE_LIMITS = "select type, cast(limits as text) from {}type_limits"


class SettingPlans(NamedTuple):
    """The statements of the engines differ only in the schema's name and the mark of parameters."""

    schema: str
    mark: str

    def _statement(self, sql: str, *params: Any, alone: bool = False) -> Statement:
        return Statement(sql.format(self.schema).replace("?", self.mark), params, alone=alone)

    def pause(self, env: SqlEnv, scope: Scope, name: str) -> Plan[None]:
        """Hand out no more jobs of a queue or a type."""
        return self._pause(PAUSE, scope, name)

    def resume(self, env: SqlEnv, scope: Scope, name: str) -> Plan[None]:
        """Hand out jobs of a queue or a type again."""
        return self._pause(RESUME, scope, name)

    def _pause(self, sql: str, scope: Scope, name: str) -> Plan[None]:
        if scope is Scope.APP:
            raise ConfigurationError("pause a queue or a type; to pause all, stop the workers")
        yield self._statement(sql, scope.value, name, alone=True)

    def limit(self, env: SqlEnv, scope: Scope, name: str, max_running: int | None) -> Plan[None]:
        """Limit how many jobs of a queue or of the whole store run at once."""
        if scope is Scope.TYPE:
            raise ConfigurationError("limits are for a queue or the whole app, not for a type")
        check_max_running(max_running)
        key = "" if scope is Scope.APP else name
        if max_running is None:
            yield self._statement(CLEAR_LIMIT, scope.value, key, alone=True)
        else:
            yield self._statement(SET_LIMIT, scope.value, key, max_running, alone=True)

    def is_paused(self, scope: Scope, name: str) -> Plan[bool]:
        """Return whether a queue or a type is paused."""
        return bool((yield self._statement(IS_PAUSED, scope.value, name)))

    def paused(self, scope: Scope) -> Plan[set[str]]:
        """Return which queues or types are paused."""
        return {name for (name,) in (yield self._statement(PAUSED, scope.value))}

    def queue_limit(self, name: str) -> Plan[int | None]:
        """Return the limit of a queue, None when there is none."""
        return self._get_limit(Scope.QUEUE, name)

    def queue_limits(self) -> Plan[dict[str, int]]:
        """Return the limits of all queues that have one."""
        return dict((yield self._statement(QUEUE_LIMITS)))

    def type_limits(self) -> Plan[dict[str, TypeLimits]]:
        """Return the limits of all types that have any."""
        rows = yield self._statement(TYPE_LIMITS)
        return {type: decode_limits(text) for type, text in rows}

    def app_limit(self, env: SqlEnv) -> Plan[int | None]:
        """Return the limit of the whole store, None when there is none."""
        return self._get_limit(Scope.APP, "")

    def _get_limit(self, scope: Scope, name: str) -> Plan[int | None]:
        rows = yield self._statement(GET_LIMIT, scope.value, name)
        return rows[0][0] if rows else None
