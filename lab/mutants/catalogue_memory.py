"""Mutants of the memory store, and of plans that it shares with SQLite, where it is quicker."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

ENGINE = "memory.store"
TESTS = "tests/store/memory/test_memory_store.py"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.store.{module}", old, new),)
    return Mutant(f"memory-{name}", about, Place.MEMORY, patches, tests)


ENGINES = (
    _mutant(
        "operation-has-no-transaction",
        "what an operation did before it raised stays",
        ENGINE,
        "transact(self.connection, [operation], self._catalog.forget)[0]",
        "run(self.connection, operation)",
        "TestEnqueueing",
        "TestKeys",
        TESTS,
    ),
    _mutant(
        "cache-outlives-a-rollback",
        "the number of a lane that was never stored is used for the next job",
        ENGINE,
        "[operation], self._catalog.forget)",
        "[operation], lambda: None)",
        TESTS,
    ),
    _mutant(
        "stores-share-a-database",
        "a new store has the jobs of another",
        ENGINE,
        '    connection = connect(":memory:")\n    _empty().backup(connection)\n',
        "    connection = _empty()\n",
        TESTS,
    ),
    _mutant(
        "nobody-is-woken",
        "listeners hear of nothing",
        ENGINE,
        "        self._listeners.wake(sorted(topics_of(operation, result)))\n",
        "",
        "TestWaking",
        "tests/store/memory/test_notification.py",
    ),
)

PLANS = (
    _mutant(
        "stale-settle-ends-a-newer-lease",
        "a stale settlement is refused, and the lease of the job's new owner ends with it",
        "sqlite.jobs.settle",
        "            # After a settlement of this batch, settled_token in the row is outdated.\n",
        "            end = 'update jobs set lease_expires_at = ? where seq = ? and state = 3'\n"
        "            yield Statement(end, (now, seq))\n",
        "TestZombies",
    ),
    _mutant(
        "lease-lives-at-its-expiry",
        "`<=` for `<`: a lease is still good at the instant it ends",
        "sqlite.jobs.settle",
        "and now < job.lease_expires_at",
        "and now <= job.lease_expires_at",
        "TestLeases",
        "TestZombies",
    ),
    _mutant(
        "recovery-comes-an-instant-early",
        "a lease is taken back a microsecond before it ends",
        "sqlite.jobs.upkeep",
        "Statement(EXPIRED_LEASES, (now, max(limit, 0)))",
        "Statement(EXPIRED_LEASES, (now + 1, max(limit, 0)))",
        "TestRecovering",
        "TestLeases",
    ),
    _mutant(
        "recovered-token-counts-as-settled",
        "a worker whose job was recovered gets the reply that it had settled it",
        "sqlite.jobs.upkeep",
        "Ending(job, decision))\n    return (yield from _end(env, endings, now))",
        "Ending(job, decision, job.lease_token))\n    return (yield from _end(env, endings, now))",
        "TestRecovering",
        "TestRepeating",
        "TestZombies",
    ),
    _mutant(
        "repeat-is-called-settled",
        "the repeat of a settlement is answered as the first was",
        "sqlite.jobs.settle",
        "        return AlreadySettled(job_id, job.state)\n",
        '        return Settled(job_id, "", job.state)\n',
        "TestRepeating",
    ),
    _mutant(
        "pause-is-ignored",
        "a paused queue is served",
        "sqlite.jobs.claim",
        "scope = '{Scope.QUEUE}' and name = lanes.queue",
        "scope = '{Scope.QUEUE}' and name = lanes.queue and false",
        "TestPausing",
    ),
    _mutant(
        "limit-is-one-too-many",
        "W + 1 jobs of a queue may run",
        "sqlite.jobs.claim",
        "name: max(most - running.get(name, 0), 0)",
        "name: max(most + 1 - running.get(name, 0), 0)",
        "TestLimits",
    ),
    _mutant(
        "half-a-chore-is-kept",
        "what a chore did before it failed is not undone",
        "sqlite.jobs.claim",
        "        yield ROLLBACK\n",
        "",
        TESTS,
    ),
    _mutant(
        "cancelled-while-running-may-complete",
        "cancelling a running job is answered, and not done",
        "sqlite.jobs.control",
        "end_all(env, ended, now, counters)",
        "end_all(env, [e for e in ended if e.job.state is not State.RUNNING], now, counters)",
        "TestCancelling",
    ),
    Mutant(
        "memory-prune-takes-live-jobs",
        "pruning deletes jobs that have not ended",
        Place.MEMORY,
        (
            Patch(
                "fencepost.store.sqlite.jobs.upkeep",
                "where seq between ? and ? and completed_at is not null order by seq",
                "where seq between ? and ? order by seq",
            ),
            Patch(
                "fencepost.store.sqlite.jobs.upkeep",
                "    if state in LIVE or keep is None or completed_at is None:\n"
                "        return False\n",
                "    if completed_at is None:\n        return True\n"
                "    if keep is None:\n        return False\n",
            ),
        ),
        ("TestPruning",),
    ),
    _mutant(
        "prune-takes-held-keys",
        "pruning deletes a job whose key is still held",
        "sqlite.jobs.upkeep",
        "kept = held | needed",
        "kept = needed",
        "TestPruning",
    ),
    _mutant(
        "two-lead-at-once",
        "a term is given to every worker that asks",
        "sqlite.records.cluster",
        "where terms.worker = excluded.worker or terms.expires_at <= (select now from given)\n",
        "where true\n",
        "TestLeading",
    ),
)

MUTANTS = (*ENGINES, *PLANS)
