"""Queues, types, workers, crons, figures, health, the audit log, and names to complete."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fencepost.core.access.audit import Action
from fencepost.core.bounds import (
    CONCURRENCY_DEFAULT,
    CRON_NEXT_DEFAULT,
    CRON_RUNS_DEFAULT,
    SCALE_TARGET_DEFAULT,
    STATS_WINDOW_DEFAULT,
    TYPE_LENGTH_MAX,
)
from fencepost.core.runs import CronRun
from fencepost.core.stats.overview import Finding, PauseView, QueueView, Scale, TypeView, WorkerInfo
from fencepost.core.values.times import format_duration
from fencepost.wire.terms import (
    PageLimit,
    QueryDuration,
    RateText,
    RunCount,
    RunningLimit,
    Strict,
    TickCount,
)


class Queues(msgspec.Struct, frozen=True):
    """Every queue with its counts by state."""

    queues: list[QueueView]


class Types(msgspec.Struct, frozen=True):
    """Every type with its counts by state."""

    types: list[TypeView]


class Workers(msgspec.Struct, frozen=True):
    """The workers heard from within the last minute, and those that are gone."""

    workers: list[WorkerInfo]
    gone: list[WorkerInfo] = []
    """Workers that stopped or fell silent within an hour, the last one first; at most 100."""


class LimitBody(Strict, frozen=True, kw_only=True):
    """How many jobs may run at once, over all workers; null removes the limit."""

    max_running: RunningLimit | None


class TypeLimitBody(Strict, frozen=True, kw_only=True):
    """How often jobs of a type may start, over all workers; null removes the limit."""

    rate: RateText | None
    """Such as ``100/m``. A worker that starts sets what its code says."""


class AppLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs may run at once in all; null: no limit."""

    max_running: int | None


class WireCronView(msgspec.Struct, frozen=True, kw_only=True):
    """A cron: its schedule, whether it is paused, its last tick and its next."""

    name: str
    expression: str
    tz: str
    description: str
    """When it ticks, in English."""
    type: str | None
    """The type of the jobs it submits; null if the stored template cannot be read."""
    queue: str | None
    missed: str
    catch_up: int
    is_paused: bool
    last_tick: datetime | None
    next_tick: datetime | None
    declared_at: datetime | None
    changed_at: datetime | None


class Crons(msgspec.Struct, frozen=True):
    """Every cron, by name."""

    crons: list[WireCronView]


class TicksQuery(Strict, frozen=True, kw_only=True):
    """How many ticks to return."""

    count: TickCount = CRON_NEXT_DEFAULT


class Ticks(msgspec.Struct, frozen=True):
    """The next times at which a cron ticks, in UTC."""

    ticks: list[datetime]


class RunsQuery(Strict, frozen=True, kw_only=True):
    """How many runs to return."""

    limit: RunCount = CRON_RUNS_DEFAULT


class CronRuns(msgspec.Struct, frozen=True):
    """Jobs of a cron that are kept, the newest first."""

    runs: list[CronRun]


class Pauses(msgspec.Struct, frozen=True):
    """What is paused: queues, types and crons."""

    pauses: list[PauseView]


class StatsQuery(Strict, frozen=True, kw_only=True):
    """How far to look back, as seconds or text such as ``5m``."""

    window: QueryDuration = format_duration(STATS_WINDOW_DEFAULT)


class ScaleQuery(Strict, frozen=True, kw_only=True):
    """In what time the backlog is to be gone, and how many jobs a worker runs at once."""

    target: QueryDuration = format_duration(SCALE_TARGET_DEFAULT)
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = CONCURRENCY_DEFAULT


class ScaleReply(Scale, frozen=True, kw_only=True):
    """How many slots a queue has, how many it could use, and how many workers that takes."""

    wanted_workers: int
    """Workers with as many slots each as ``concurrency`` says."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor found, and when it looked."""

    at: datetime
    findings: list[Finding]


class Health(msgspec.Struct, frozen=True):
    """The health of the process."""

    status: str


class WireActionPage(msgspec.Struct, frozen=True, kw_only=True):
    """What operators did, newest first, and where the next page begins."""

    actions: list[Action]
    next: str | None


class CompletionQuery(Strict, frozen=True, kw_only=True):
    """Names of what, how they begin, and how many at most."""

    field: Literal["queue", "type", "worker", "tag", "correlation", "flow", "key", "error"]
    """All queues, types and live workers; of the others, what the newest 500 jobs have: tags as
    ``name:value``, the classes of errors."""
    prefix: Annotated[str, Meta(extra_json_schema={"maxLength": TYPE_LENGTH_MAX})] = ""
    limit: PageLimit = 20


class Completions(msgspec.Struct, frozen=True):
    """Names: those that begin as asked for first, then those that have it elsewhere."""

    values: list[str]
