"""Mutants of the SQLite store."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.sqlite"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"{STORE}.{module}", old, new),)
    return Mutant(f"sqlite-{name}", about, Place.SQLITE, patches, tests)


LANES = (
    _mutant(
        "too-many-lanes",
        "an app has one pair of queue and type more than it may have",
        "jobs.catalog",
        "where (select count(*) from lanes) < ?",
        "where (select count(*) from lanes) <= ?",
        "TestLanes",
    ),
    _mutant(
        "removed-lanes-are-not-missed",
        "a job is stored in a lane that another process has removed",
        "engine.database",
        '        connection.execute("pragma foreign_keys = on")',
        '        connection.execute("pragma foreign_keys = off")',
        "TestLanes",
    ),
    _mutant(
        "used-lanes-are-removed",
        "a lane is removed that has jobs",
        "jobs.upkeep",
        'f"select lane from lanes where idle_at <= ? and not {HAS_JOBS}"',
        'f"select lane from lanes where idle_at <= ?"',
        "TestLanes",
    ),
    _mutant(
        "claims-read-all-lanes",
        "a claim looks at the lanes of all types of its queue",
        "jobs.claim",
        "type in (select value from json_each(?)) and",
        "+type in (select value from json_each(?)) and",
        "tests/store/sqlite/test_lanes.py",
    ),
)

LEASES = (
    _mutant(
        "content-has-to-be-text",
        "one damaged payload or checkpoint fails every claim of the store",
        "jobs.rows",
        "when 'text' then 0 else",
        "when 'text' then {column} else",
        "tests/store/sqlite/test_bad_days.py",
    ),
    _mutant(
        "retrying-jobs-live-for-ever",
        "a job that waits for its retry does not expire",
        "jobs.upkeep",
        "where completed_at is null and expires_at <= ? order by expires_at",
        "where completed_at is null and state <> 4 and expires_at <= ? order by expires_at",
        "TestExpiring",
    ),
    _mutant(
        "chore-fails-the-claim",
        "a chore that fails takes the claim with it, every claim",
        "jobs.claim",
        "    except Exception as error:",
        "    except ZeroDivisionError as error:",
        "TestChores",
    ),
    _mutant(
        "success-ignores-the-token",
        "a success is recorded under any token that was once the job's",
        "jobs.settle",
        "  and jobs.lease_token = ? and jobs.lease_expires_at > ?",
        "  and ? is not null and jobs.lease_expires_at > ?",
        "TestZombies",
        "TestFencing",
    ),
    _mutant(
        "success-lives-at-its-expiry",
        "`>=` for `>`: a success is recorded at the instant its lease ends",
        "jobs.settle",
        "  and jobs.lease_token = ? and jobs.lease_expires_at > ?",
        "  and jobs.lease_token = ? and jobs.lease_expires_at >= ?",
        "TestZombies",
    ),
    _mutant(
        "failure-ignores-the-token",
        "heartbeats, checkpoints and failures are taken under any token",
        "jobs.settle",
        "        and job.lease_token == lease_token\n",
        "",
        "TestZombies",
        "TestFencing",
    ),
    _mutant(
        "heartbeat-revives",
        "a heartbeat extends a lease that has run out",
        "jobs.heartbeat",
        "job = leased(jobs, beat, now)",
        "job = leased(jobs, beat, 0)",
        "TestLeases",
    ),
    _mutant(
        "heartbeat-shortens",
        "a heartbeat sets the expiry, also to an earlier time",
        "jobs.heartbeat",
        "return max(job.lease_expires_at, min(now + seconds_to_us(asked), latest))",
        "return min(now + seconds_to_us(asked), latest)",
        "TestLeases",
    ),
    _mutant(
        "recovery-is-not-counted",
        "a lease that ran out costs no attempt",
        "jobs.upkeep",
        "jobs = [live_row(row) for row in rows]",
        "jobs = [live_row((*row[:4], row[4] - 1, *row[5:])) for row in rows]",
        "TestRecovering",
    ),
    _mutant(
        "recovery-waits-an-instant",
        "`<` for `<=`: at its expiry a lease is not yet taken back",
        "jobs.upkeep",
        "where state = {RUNNING} and lease_expires_at <= ? order by",
        "where state = {RUNNING} and lease_expires_at < ? order by",
        "TestRecovering",
        "TestLeases",
    ),
    _mutant(
        "token-is-not-renewed",
        "all claims hand out the same secret",
        "jobs.lease",
        "lease_token = env.clock.new_token()",
        'lease_token = "secret"',
        "TestZombies",
        "TestFencing",
    ),
    Mutant(
        "sqlite-ended-jobs-keep-their-lease",
        "a worker that lost a job to a cancellation can still complete it",
        Place.SQLITE,
        (
            Patch(
                f"{STORE}.jobs.finish",
                "updated_at = ended.now, lease_token = null, lease_expires_at = null, worker",
                "updated_at = ended.now, worker",
            ),
            Patch(
                f"{STORE}.jobs.settle",
                "and jobs.state = {RUNNING} and jobs.lane = ?",
                "and jobs.lane = ?",
            ),
        ),
        ("TestCancelling", "TestZombies"),
    ),
    _mutant(
        "repeat-is-called-stale",
        "a repeated settlement gets the reply that the lease was lost",
        "jobs.settle",
        "return AlreadySettled(job_id, job.state)",
        "return LeaseLost(job_id)",
        "TestRepeating",
    ),
    _mutant(
        "stale-batch-is-half-taken-back",
        "a batch with one stale success keeps the others, and looks at them again",
        "jobs.settle",
        'yield Statement("rollback to complete_all")',
        'yield Statement("select 1")',
        "TestRepeating",
        "TestFencing",
        "tests/store/sqlite/test_settling.py",
    ),
    _mutant(
        "stale-checkpoint-is-kept",
        "a worker that lost its lease can still save",
        "jobs.settle",
        "job = leased(jobs, item, now)",
        "job = jobs.get(read_token(item.token).seq)",
        "TestZombies",
    ),
    _mutant(
        "snooze-is-counted",
        "a snooze or a release uses up an attempt",
        "jobs.finish",
        "job.attempt if decision.is_counted else job.attempt - 1,",
        "job.attempt,",
        "TestSettling",
    ),
    _mutant(
        "release-goes-to-the-end-of-the-line",
        "a job that is given back loses its place",
        "jobs.finish",
        "        run_at = job.run_at\n",
        "        run_at = now if state is State.SCHEDULED else job.run_at\n",
        "TestSettling",
        "TestOrdering",
    ),
)

JOBS = (
    _mutant(
        "key-is-taken-from-a-running-job",
        "a key can be taken over while its job runs",
        "jobs.enqueue",
        "is_live=not state.is_terminal",
        "is_live=not state.is_terminal and state is not State.RUNNING",
        "TestKeys",
    ),
    _mutant(
        "key-window-is-forgotten",
        "a key is released when its job ends, though its window lasts",
        "jobs.enqueue",
        "window_ends_us=key_ends_at",
        "window_ends_us=None",
        "TestKeys",
    ),
    _mutant(
        "promotes-too-early",
        "a job becomes claimable a second before it is due",
        "jobs.upkeep",
        "where state in ({DELAYED}, {RETRYING}) and run_at <= ? order by",
        "where state in ({DELAYED}, {RETRYING}) and run_at <= ? + 1000000 order by",
        "TestPromoting",
    ),
    _mutant(
        "pause-of-a-type-is-ignored",
        "a paused type is served",
        "jobs.claim",
        "where scope = '{Scope.TYPE}' and name = lanes.type",
        "where scope = '{Scope.TYPE}' and name = lanes.queue",
        "TestPausing",
    ),
    _mutant(
        "claims-expire-nothing",
        "a claim hands out jobs past their lifetime",
        "jobs.claim",
        "if _is_due(ahead.expires_at, now):",
        "if False:",
        "TestExpiring",
    ),
    _mutant(
        "limit-counts-nobody",
        "running jobs of a queue are not counted against its limit",
        "jobs.claim",
        "running: dict[str, int] = dict(rows)",
        "running: dict[str, int] = {}",
        "TestLimits",
    ),
    _mutant(
        "prune-ignores-retention",
        "an ended job is deleted at once",
        "jobs.upkeep",
        "return bool(completed_at + seconds_to_us(keep) <= now)",
        "return bool(completed_at <= now)",
        "TestPruning",
    ),
    _mutant(
        "replay-leaves-the-record",
        "a dead letter that was replayed can be replayed again",
        "jobs.control",
        "    yield Statement(RECORD_SUCCESSOR, (dead.seq,))\n",
        "",
        "TestReplaying",
    ),
    _mutant(
        "retry-adds-no-attempt",
        "a job that is opened again without a reset has no attempt left",
        "jobs.control",
        "else attempt + 1,",
        "else attempt,",
        "TestReopening",
    ),
    _mutant(
        "priority-is-inverted",
        "the least urgent job of several lanes comes first",
        "jobs.claim",
        '" order by 1, 2, 3 limit ?"',
        '" order by 1 desc, 2, 3 limit ?"',
        "TestOrdering",
    ),
    _mutant(
        "refused-batch-is-half-stored",
        "what a transaction did before it failed is committed",
        "engine.connection",
        ' and not was_open:\n            connection.execute("rollback")',
        ' and not was_open:\n            connection.execute("commit")',
        "TestEnqueueing",
        "TestKeys",
    ),
    _mutant(
        "claim-is-counted-once",
        "a claim of several jobs moves the counters by one",
        "jobs.lease",
        "counters.move(lane, State.SCHEDULED, State.RUNNING, count)",
        "counters.move(lane, State.SCHEDULED, State.RUNNING, 1)",
        "TestViews",
        "TestLooking",
    ),
)

FILE = (
    _mutant(
        "writes-without-the-lock",
        "a write does not wait for the side-car lock",
        "engine.database",
        "            self._lock.acquire(self._patience)\n"
        "            try:\n                yield\n            finally:\n"
        "                self._lock.release()\n",
        "            yield\n",
        "tests/store/sqlite/test_lock.py",
    ),
    _mutant(
        "answers-before-the-disk",
        "an awaited write is answered before it is safe",
        "engine.group_commit",
        "early = [a for a in answers if a.error or a.posted.operation.effect is not Effect.WRITE]",
        "early = list(answers)",
        "tests/store/sqlite/test_group_commit.py",
    ),
    _mutant(
        "answers-before-the-commit",
        "an awaited operation is answered before its transaction is committed",
        "engine.connection",
        '        connection.execute("commit")\n    except BaseException:',
        '        connection.execute("rollback")\n    except BaseException:',
        "TestDurability",
        "TestEnqueueing",
    ),
)

GRAPHS = (
    _mutant(
        "success-lets-nobody-go",
        "a batch of successes forgets who waited for it",
        "jobs.settle",
        "    if has_followers:\n",
        "    if False:\n",
        "TestDependencies",
    ),
    _mutant(
        "missing-is-not-counted-down",
        "a job that waits for several waits for the last of them for ever",
        "flows.dependents",
        "values(COUNT_DOWN, [row for row in missing.items() if row[1]])",
        "values(COUNT_DOWN, [])",
        "TestDependencies",
    ),
    _mutant(
        "missing-is-counted-down-twice",
        "a job that waits for three is let go by the second",
        "flows.dependents",
        "values(COUNT_DOWN, [row for row in missing.items() if row[1]])",
        "values(COUNT_DOWN, [(seq, count - 1) for seq, count in missing.items() if count])",
        "TestDependencies",
    ),
    _mutant(
        "failure-lets-dependents-go",
        "a job that waits for a success runs after a failure too",
        "flows.dependents",
        "        missing, failing = count_ended(rows, ended)\n",
        "        missing, failing = count_ended(rows, ended)\n"
        "        missing, failing = {**missing, **dict.fromkeys(failing, 0)}, {}\n",
        "TestDependencies",
    ),
    _mutant(
        "failure-ends-only-the-next",
        "a job waits for ever for one that ended with its own dependency",
        "flows.dependents",
        "        ended = ended_of(level.endings)\n",
        "        ended = {}\n",
        "TestDependencies",
        "TestRefusedDependencies",
    ),
    _mutant(
        "dependents-are-looked-for-before-the-write",
        "of several jobs that end at once, one that waited for another ends twice over",
        "flows.dependents",
        "    yield from end(others, now, counters)\n"
        "    left = [each.job.seq for each in endings "
        "if each.decision.event is not Event.RELEASE]\n"
        "    return (yield from follow(env, ended_of(endings), left, now, counters))\n",
        "    left = [each.job.seq for each in endings "
        "if each.decision.event is not Event.RELEASE]\n"
        "    followed = yield from follow(env, ended_of(endings), left, now, counters)\n"
        "    yield from end(others, now, counters)\n"
        "    return followed\n",
        "TestDependencies",
    ),
    _mutant(
        "stale-lease-spawns",
        "a worker that lost its lease can still spawn",
        "flows.spawn",
        "job = leased(jobs, each, now)",
        "job = jobs.get(int(each.token.partition('.')[0], 16))",
        "TestSpawning",
    ),
    _mutant(
        "gathered-is-not-counted",
        "who gathers is let go before what was spawned has ended",
        "flows.spawn",
        "(seq, int(entry.priority), entry.waits.missing, entry.waits.depth)",
        "(seq, int(entry.priority), 1, entry.waits.depth)",
        "TestSpawning",
    ),
    _mutant(
        "gathers-what-waits-for-it",
        "two jobs wait for each other",
        "flows.spawn",
        "return {first for (first,) in rows}",
        "return set()",
        "TestSpawning",
    ),
    _mutant(
        "prune-ignores-dependents",
        "a result is deleted for which somebody waits",
        "jobs.upkeep",
        "kept = held | needed",
        "kept = held",
        "TestDependencies",
    ),
    _mutant(
        "reopened-is-counted-as-ended",
        "who waits for all to end does not wait for one that was opened again",
        "jobs.control",
        "    yield Statement(COUNT_UP, (seq, seq))\n",
        "",
        "TestReopenedDependencies",
    ),
)

MUTANTS = (*LANES, *LEASES, *JOBS, *FILE, *GRAPHS)
