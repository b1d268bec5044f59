"""Mutants of the PostgreSQL store that take the time from the worker instead of the server."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store"
TESTS = ("tests/store/postgres/test_clocks.py",)


def _mutant(name: str, about: str, module: str, old: str) -> Mutant:
    patch = Patch(f"{STORE}.{module}", old, old.replace("env.now", "env.clock.now()"))
    return Mutant(f"postgres-{name}-by-the-workers-clock", about, Place.POSTGRES, (patch,), TESTS)


MUTANTS = (
    _mutant(
        "claims",
        "a claim is dated, and decides what is due, by the clock of the worker",
        "postgres.jobs.claim",
        "    return env.now, asked, view.served\n",
    ),
    _mutant(
        "succeeds",
        "whether a lease is valid for a success is judged by the worker's clock",
        "postgres.jobs.settle",
        "params = (env.now, groups_json, env.is_joined)",
    ),
    _mutant(
        "fails",
        "whether a lease is valid for a failure is judged by the worker's clock",
        "postgres.jobs.settle",
        "Statement(DETACH_LEASED, (env.now, groups))",
    ),
    _mutant(
        "heartbeats",
        "a heartbeat extends from the worker's now",
        "postgres.jobs.heartbeat",
        "params = (env.now, encode_json(asked))",
    ),
    _mutant(
        "saves",
        "whether a lease is valid for a checkpoint is judged by the worker's clock",
        "postgres.jobs.settle",
        "params = (env.now, fence.lease_token, fence.seq, progress, *checkpoint)",
    ),
    _mutant(
        "recovers",
        "a lease is over when a worker's clock says so",
        "postgres.jobs.upkeep",
        "Statement(DETACH_EXPIRED, (env.now, max(limit, 0)))",
    ),
    _mutant(
        "promotes",
        "a job is due when a worker's clock says so",
        "postgres.jobs.upkeep",
        "Statement(PROMOTE, (env.now, max(limit, 0)), alone=True)",
    ),
    _mutant(
        "expires",
        "a job's lifetime is over when a worker's clock says so",
        "postgres.jobs.upkeep",
        "Statement(OUTLIVED, (env.now, max(limit, 0)))",
    ),
    _mutant(
        "leads",
        "a term is over when a candidate's clock says so",
        "sql.records.cluster",
        "params = (env.now, name, worker, seconds_to_us(ttl))",
    ),
    _mutant(
        "puts",
        "a failed attempt waits from the worker's now",
        "postgres.jobs.finish",
        "Statement(ATTACH, (env.now, _encoder.encode(portion).decode()))",
    ),
)
