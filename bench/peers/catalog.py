"""Who is measured, with which settings, and what it means there that a job is submitted or done."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Engine(StrEnum):
    """The server that keeps the jobs."""

    POSTGRESQL = "postgresql"
    REDIS = "redis"


class Language(StrEnum):
    """What a peer's program is run by: each has an environment of its own."""

    OWN = "own"
    PYTHON = "python"
    NEW_PYTHON = "python 3.12"
    NODE = "node"


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """One queue on one server."""

    name: str
    title: str
    engine: Engine
    language: Language
    package: str
    """What its registry calls it."""
    program: str
    """The file in ``programs``."""
    settings: str
    submitted: str
    """What a caller has waited for when a submission returns."""
    done: str
    """What becomes of a job that has run, and when."""
    recovery: str
    """What brings back a job whose worker was killed."""
    has_bulk: bool = True
    remaining: str | tuple[tuple[str, str], ...] = ()
    """Counts the jobs that are not done: in SQL, or the sum of commands of Redis. Fencepost's own
    API is asked if there is nothing."""

    @property
    def is_ours(self) -> bool:
        return self.language is Language.OWN


COMMIT = "a commit"
REPLY = "the server's reply"

OURS = "100 slots, else as it comes"
KEPT = "kept with its result, in a commit"

PEERS: tuple[Peer, ...] = (
    Peer(
        name="fencepost-postgresql",
        title="Fencepost",
        engine=Engine.POSTGRESQL,
        language=Language.OWN,
        package="fencepost",
        program="fencepost",
        settings=OURS,
        submitted=COMMIT,
        done=KEPT,
        recovery="a lease of 30 s",
    ),
    Peer(
        name="graphile-worker",
        title="graphile-worker",
        engine=Engine.POSTGRESQL,
        language=Language.NODE,
        package="graphile-worker",
        program="graphile_worker",
        settings="concurrency 24, local queue of 500, completion in batches without a delay",
        submitted=COMMIT,
        done="deleted, in a commit",
        remaining="select count(*) from graphile_worker._private_jobs",
        recovery="a lock that ends after four hours; sooner in its paid edition",
    ),
    Peer(
        name="pg-boss",
        title="pg-boss",
        engine=Engine.POSTGRESQL,
        language=Language.NODE,
        package="pg-boss",
        program="pg_boss",
        settings="batches of 500, two workers, no pause after a full batch, woken by NOTIFY, "
        "heartbeat of 30 s",
        submitted=COMMIT,
        done="kept, in a commit with its batch",
        remaining="select count(*) from pgboss.job where state < 'completed'",
        recovery="a heartbeat of 30 s, looked at each minute",
    ),
    Peer(
        name="pgqueuer",
        title="PgQueuer",
        engine=Engine.POSTGRESQL,
        language=Language.PYTHON,
        package="pgqueuer",
        program="pgqueuer",
        settings="asyncpg, batches of 500, its tables as installed (durable)",
        submitted=COMMIT,
        done="moved to a log, in a commit with others",
        remaining="select count(*) from pgqueuer",
        recovery="a heartbeat of 30 s",
    ),
    Peer(
        name="procrastinate",
        title="Procrastinate",
        engine=Engine.POSTGRESQL,
        language=Language.PYTHON,
        package="procrastinate",
        program="procrastinate",
        settings="psycopg, concurrency 50 over 10 connections, its manual's task for stalled jobs "
        "every ten minutes",
        submitted=COMMIT,
        done="kept, in a commit",
        remaining="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
        recovery="its manual's task, every ten minutes",
    ),
    Peer(
        name="oban",
        title="Oban for Python",
        engine=Engine.POSTGRESQL,
        language=Language.NEW_PYTHON,
        package="oban",
        program="oban",
        settings="a queue of 100",
        submitted=COMMIT,
        done="kept, in a commit",
        remaining="select count(*) from oban_jobs "
        "where state in ('available', 'executing', 'scheduled', 'retryable')",
        recovery="after five minutes; sooner in its paid edition",
    ),
    Peer(
        name="fencepost-redis",
        title="Fencepost",
        engine=Engine.REDIS,
        language=Language.OWN,
        package="fencepost",
        program="fencepost",
        settings=OURS,
        submitted=REPLY,
        done="kept with its result",
        recovery="a lease of 30 s",
    ),
    Peer(
        name="bullmq",
        title="BullMQ",
        engine=Engine.REDIS,
        language=Language.NODE,
        package="bullmq",
        program="bullmq",
        settings="concurrency 100, keeps the last 1,000 completed jobs",
        submitted=REPLY,
        done="kept until a thousand others are",
        remaining=(("llen", "bull:peers:wait"), ("llen", "bull:peers:active")),
        recovery="a lock of 30 s, looked at every 30 s",
    ),
    Peer(
        name="celery",
        title="Celery",
        engine=Engine.REDIS,
        language=Language.PYTHON,
        package="celery",
        program="celery",
        settings="prefork with one child, acks_late, no result backend",
        submitted=REPLY,
        done="deleted after it has run",
        has_bulk=False,
        remaining=(("llen", "celery"), ("hlen", "unacked")),
        recovery="a visibility timeout of one hour",
    ),
    Peer(
        name="dramatiq",
        title="Dramatiq",
        engine=Engine.REDIS,
        language=Language.PYTHON,
        package="dramatiq",
        program="dramatiq",
        settings="one process of eight threads, no result backend",
        submitted=REPLY,
        done="deleted after it has run",
        has_bulk=False,
        remaining=(("hlen", "dramatiq:default.msgs"),),
        recovery="a heartbeat of 60 s",
    ),
    Peer(
        name="rq",
        title="RQ",
        engine=Engine.REDIS,
        language=Language.PYTHON,
        package="rq",
        program="rq",
        settings="the usual worker, which forks for each job",
        submitted=REPLY,
        done="kept with its result",
        remaining=(("llen", "rq:queue:default"), ("zcard", "rq:wip:default")),
        recovery="a job that is told to retry, after its timeout of 180 s; others count as failed",
    ),
    Peer(
        name="huey",
        title="Huey",
        engine=Engine.REDIS,
        language=Language.PYTHON,
        package="huey",
        program="huey",
        settings="a consumer of eight threads",
        submitted=REPLY,
        done="gone when a worker takes it, before it has run",
        has_bulk=False,
        remaining=(("llen", "huey.redis.peers"),),
        recovery="nothing",
    ),
)

NAMES = [peer.name for peer in PEERS]
