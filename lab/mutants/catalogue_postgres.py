"""Mutants of the PostgreSQL store: of its functions in the database, and of what calls them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.postgres"
SQL = f"{STORE}.schema/*.sql"
OPEN = "tests/store/postgres/test_open_transactions.py"
ORDER = "tests/store/postgres/test_lock_order.py"


def _sql(name: str, about: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, (Patch(SQL, old, new),), tests)


def _python(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"{STORE}.{module}", old, new),)
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, patches, tests)


LEASES = (
    _sql(
        "success-ignores-the-secret",
        "a success is recorded under whatever lease the job has",
        "hold_leases(t, v_lease_token, v_seqs)",
        "hold_leases("
        "t, (select lease_token from fencepost.leases where seqs && v_seqs limit 1), v_seqs)",
        "TestZombies",
        "TestFencing",
    ),
    _sql(
        "success-lives-at-its-expiry",
        "`>=` for `>`: a success is recorded at the instant its lease ends",
        "hold_leases(t, v_lease_token, v_seqs)",
        "hold_leases(t - interval '1 microsecond', v_lease_token, v_seqs)",
        "TestZombies",
    ),
    _sql(
        "heartbeat-revives",
        "a heartbeat extends a lease that has run out",
        "hold_leases(t, b.lease_token, b.seqs)",
        "hold_leases('-infinity', b.lease_token, b.seqs)",
        "TestLeases",
    ),
    _sql(
        "failure-needs-no-valid-lease",
        "a failure is recorded under a lease that has run out",
        "hold_leases(t, g.lease_token, g.seqs)",
        "hold_leases('-infinity', g.lease_token, g.seqs)",
        "TestZombies",
        "TestFencing",
    ),
    _sql(
        "stale-checkpoint-is-kept",
        "a worker that lost its lease can still save",
        "from fencepost.hold_leases(t, p_lease_token, array[p_seq])",
        "from fencepost.leases where p_seq = any (seqs) for update",
        "TestZombies",
    ),
    _sql(
        "split-lease-is-lost",
        "an operation that waited for a lease that a heartbeat split calls it lost",
        "exit when v_rest = '{}' or not exists (",
        "exit when true or not exists (",
        "tests/store/postgres/test_splitting.py",
    ),
    _python(
        "chore-fails-the-claim",
        "a chore that fails takes the claim with it, every claim",
        "engine.transaction",
        "    except Exception as error:  # noqa: BLE001 - a chore must not fail the claim\n"
        "        yield RETREAT\n",
        "    except ZeroDivisionError as error:\n        yield RETREAT\n",
        "TestChores",
    ),
    _python(
        "payload-spoils-the-claim",
        "one payload that is no JSON fails every claim that meets it",
        "jobs.claim",
        "        except msgspec.DecodeError:\n            failed",
        "        except ZeroDivisionError:\n            failed",
        "tests/store/postgres/test_catalog.py",
    ),
    _python(
        "payload-takes-its-neighbours",
        "the jobs that were claimed with a damaged one fail with it",
        "jobs.claim",
        "RELEASED if _is_json(payload) else CORRUPT",
        "CORRUPT",
        "tests/store/postgres/test_catalog.py",
    ),
    _python(
        "chore-is-never-left-alone",
        "a chore that failed is done again by every claim",
        "jobs.claim",
        "for name, bit in CHORES.items() if chores.may(name)",
        "for name, bit in CHORES.items()",
        "TestChores",
    ),
    _python(
        "fan-in-one-statement",
        "all that waited for a job is ended by one statement, however many they are",
        "flows.dependents",
        "for seqs in portions(sorted(failing), FOLLOW_BATCH):",
        "for seqs in portions(sorted(failing), 10**9):",
        "tests/store/postgres/test_fans.py",
    ),
    _python(
        "callers-transaction-locks-what-its-jobs-wait-for",
        "a job submitted after a running one holds up the claim of that until the commit",
        "flows.enqueue",
        "hold(awaited, is_joined=env.is_joined)",
        "hold(awaited)",
        OPEN,
    ),
    _python(
        "callers-transaction-leaves-no-note",
        "a job that is submitted after one that ends meanwhile waits for ever",
        "flows.enqueue",
        "        yield from note_waiting([each",
        "        yield from note_waiting([] and [each",
        OPEN,
    ),
    _python(
        "completion-in-a-callers-transaction-lets-go",
        "who waits for the job is locked until the commit, and so is its slot",
        "jobs.settle",
        "params = (env.now, groups_json, env.is_joined)",
        "params = (env.now, groups_json, False)",
        OPEN,
    ),
    _python(
        "completion-in-a-callers-transaction-locks-its-claim",
        "jobs that were claimed together with one that is being completed wait for the commit",
        "joins.operations",
        "if operation.is_a(QueueFacet.settle):\n        yield",
        "if operation.is_a():\n        yield",
        OPEN,
    ),
    _python(
        "job-before-sqlalchemy-begins",
        "a job that is the first of a session over asyncpg stays when that is rolled back",
        "joins.connections",
        "        if not found.is_in_transaction():\n",
        "        if False:\n",
        "tests/store/postgres/test_asyncpg.py",
    ),
    _sql(
        "completion-above-read-committed-leaves-no-note",
        "who came to wait after the snapshot in which a job is completed waits for ever",
        "    where current_setting('transaction_isolation') <> 'read committed'\n      or exists",
        "    where exists",
        OPEN,
    ),
    _sql(
        "completion-in-a-callers-transaction-locks-the-lease-first",
        "it locks the row of the job after its lease; the expiry of jobs locks them before",
        "begin\n  if p_is_joined then\n    perform fencepost.hold_jobs(t, p_groups);\n  end if;\n"
        "  for g in",
        "begin\n  for g in",
        ORDER,
    ),
    _python(
        "settlement-locks-one-kind-after-another",
        "the leases of failures are locked after those of successes, whatever their secrets",
        "jobs.settle",
        "    if others and (successes or env.is_joined):\n",
        "    if others and env.is_joined:\n",
        ORDER,
    ),
    _sql(
        "preparing-to-complete-locks-by-job",
        "the parts of a lease are locked in the order of the jobs in them",
        "      order by part for update\n",
        "      order by part desc for update\n",
        ORDER,
    ),
    _python(
        "claims-spin-beside-a-lease-in-hand",
        "a worker asks again and again while a caller's transaction holds a lease that ran out",
        "jobs.claim",
        "    if moved == []:\n",
        "    if moved is chores:\n",
        OPEN,
    ),
    _sql(
        "numbers-are-looked-up-in-an-old-snapshot",
        "above read committed, the first job of a type fails the transaction of a caller's",
        "  if is_strict then\n    -- What",
        "  if false then\n    -- What",
        OPEN,
    ),
    _sql(
        "promotion-loses-a-job-without-a-lane",
        "a due job with a concurrency key whose lane is missing is put down nowhere",
        "from placed left join fencepost.lanes on lanes.lane = placed.lane where slot",
        "from placed join fencepost.lanes on lanes.lane = placed.lane where slot",
        "tests/store/postgres/test_catalog.py",
    ),
    _sql(
        "lost-job-keeps-others-from-ending",
        "a job that stands nowhere is looked for until all is undone, by every expiry",
        "      exists (select 1 from fencepost.done where done.seq = j.seq)\n",
        "      true or exists (select 1 from fencepost.done where done.seq = j.seq)\n",
        "tests/store/postgres/test_catalog.py",
    ),
    _python(
        "pruned-dependency-is-waited-for",
        "the note on a job whose dependency was pruned before the commit goes round for ever",
        "flows.dependents",
        "    if missing := seqs - parents.keys():\n",
        "    if missing := set[int]():\n",
        OPEN,
    ),
    _python(
        "held-up-operations-hold-up-others",
        "an awaited operation waits for a lock in a thread that all share",
        "engine.group_commit",
        "self._runner.run(posted.operation, lock_timeout=GROUP_LOCK_TIMEOUT)",
        "self._runner.run(posted.operation)",
        OPEN,
    ),
    _python(
        "group-keeps-the-order-of-arrival",
        "two processes lock the same leases in opposite orders",
        "engine.group_commit",
        "        together.sort(key=_rank)\n",
        "",
        ORDER,
    ),
    _sql(
        "keys-in-the-order-of-the-jobs",
        "two submissions take the same keys in opposite orders",
        """order by (x.value ->> 'type') collate "C", (x.value ->> 'key') collate "C", x.n""",
        "order by x.n",
        ORDER,
    ),
    _python(
        "graph-is-locked-level-by-level",
        "two that end jobs of one graph lock those behind in opposite orders",
        "flows.dependents",
        "    if failed:\n",
        "    if failed and not failed:\n",
        ORDER,
    ),
    _python(
        "spawning-locks-who-gathers-first",
        "who gathers is locked before the jobs that a key returned",
        "flows.spawn",
        "        holding = partial(_hold, env, fence)\n",
        "        yield Statement(GATHERERS, (fence.seq,))\n"
        "        holding = partial(_hold, env, fence)\n",
        ORDER,
    ),
    _sql(
        "ended-jobs-keep-their-lease",
        "a job that was taken back or cancelled stands in its old lease too",
        "  perform fencepost.shrink(e, p_seqs);\n  return query\n",
        "  return query\n",
        "TestRecovering",
        "TestCancelling",
    ),
    _python(
        "recovery-is-not-counted",
        "a lease that ran out costs no attempt",
        "jobs.upkeep",
        "lease_ended(\n            job,",
        "lease_ended(\n            job._replace(attempt=job.attempt - 1),",
        "TestRecovering",
    ),
    _sql(
        "recovery-waits-an-instant",
        "`<` for `<=`: at its expiry a lease is not yet taken back",
        "where expires_at >= v_mark and expires_at <= t",
        "where expires_at >= v_mark and expires_at < t",
        "TestRecovering",
        "TestLeases",
    ),
    _python(
        "token-is-good-for-another-job",
        "a token is taken whatever job it is sent for",
        "jobs.lease",
        "if lane and is_own and 0 < seq < SEQ_END",
        "if lane and 0 < seq < SEQ_END",
        "TestFencing",
    ),
    _python(
        "repeat-is-called-settled",
        "the repeat of a settlement is answered as the first was",
        "jobs.settle",
        "replies[index] = AlreadySettled(job_id, states[job_id.lower()])\n",
        'replies[index] = Settled(job_id, "", states[job_id.lower()])\n',
        "TestRepeating",
    ),
    _python(
        "snooze-is-counted",
        "a snooze or a release uses up an attempt",
        "jobs.finish",
        "job.attempt if decision.is_counted else job.attempt - 1",
        "job.attempt",
        "TestSettling",
    ),
    _sql(
        "release-goes-to-the-end-of-the-line",
        "a job that is given back loses its place",
        "case when x.delay is null then x.run_at",
        "case when x.is_in_line then t when x.delay is null then x.run_at",
        "TestSettling",
        "TestOrdering",
    ),
)

JOBS = (
    _sql(
        "limit-without-the-lock",
        "two claims at once count the running jobs at once",
        "    perform fencepost.lock_limits(s.names);\n",
        "",
        "TestLimits",
        "TestConcurrency",
    ),
    _sql(
        "claims-wait-for-each-other",
        "a claim waits for jobs that another is about to take",
        "order by r.run_at, r.seq limit p_limit for update skip locked",
        "order by r.run_at, r.seq limit p_limit for update",
        "tests/store/postgres/test_claiming.py",
    ),
    _sql(
        "key-is-taken-from-a-live-job",
        "a key can be taken over while its job is live",
        "        exists (select 1 from fencepost.done where done.seq = held.seq)\n        and (",
        "        (",
        "TestKeys",
    ),
    _sql(
        "key-window-is-forgotten",
        "a key is released when its job ends, though its window lasts",
        "        and (held.key_ends_at is null or held.key_ends_at <= t)\n",
        "",
        "TestKeys",
    ),
    _sql(
        "promotes-too-early",
        "a job becomes claimable a second before it is due",
        "where d.run_at >= v_mark and d.run_at <= t",
        "where d.run_at >= v_mark and d.run_at <= t + interval '1 second'",
        "TestPromoting",
    ),
    _sql(
        "pause-of-a-type-is-ignored",
        "a paused type is served",
        "or exists (select 1 from fencepost.pauses where scope = 'type' and name = l.type)",
        "",
        "TestPausing",
    ),
    _sql(
        "claims-expire-nothing",
        "a claim hands out jobs past their lifetime",
        "when ahead.has_outlived then",
        "when false then",
        "TestExpiring",
    ),
    _sql(
        "claim-is-not-counted",
        "a claim takes no job off the counter of those in line",
        "values (p_lane, :SCHEDULED, -x.count), (p_lane, :RUNNING, x.count);",
        "values (p_lane, :RUNNING, x.count);",
        "TestViews",
        "TestLooking",
    ),
    _sql(
        "priority-is-inverted",
        "the least urgent job comes first",
        "group by priority order by priority\n",
        "group by priority order by priority desc\n",
        "TestOrdering",
    ),
    _python(
        "replay-leaves-the-record",
        "a dead letter that was replayed can be replayed again",
        "jobs.control",
        "    yield Statement(RECORD_SUCCESSOR, (seq,))\n",
        "",
        "TestReplaying",
    ),
    _python(
        "retry-adds-no-attempt",
        "a job that is opened again without a reset has no attempt left",
        "jobs.control",
        "if request.reset_attempts else attempt + 1",
        "if request.reset_attempts else attempt",
        "TestReopening",
    ),
    _python(
        "refused-batch-is-half-stored",
        "a batch that is to be stored whole or not at all has no transaction",
        "jobs.enqueue",
        "alone = not atomic and len(batch.jobs) == len(jobs)",
        "alone = len(batch.jobs) == len(jobs)",
        "TestEnqueueing",
        "TestKeys",
    ),
    _python(
        "prune-takes-held-keys",
        "pruning deletes a job whose key is still held",
        "jobs.upkeep",
        "      and held.key_ends_at > (select now from given)\n",
        "      and false\n",
        "TestPruning",
    ),
)

MARKS = (
    _sql(
        "mark-waits-for-nobody",
        "the mark moves over what an open transaction may still put into line",
        "v_until := case when pg_snapshot_xmin(pg_current_snapshot()) >= m.next_xid then m.at end;",
        "v_until := m.at;",
        "tests/store/postgres/test_marks.py",
    ),
    _sql(
        "mark-moves-too-far",
        "the mark moves over jobs that stand in line",
        "v_low := least(coalesce(p_until, l.low), v_first,",
        "v_low := least(coalesce(p_until, l.low),",
        "tests/store/postgres/test_marks.py",
    ),
    _sql(
        "promoted-below-the-mark",
        "a job that is promoted to a place below the mark does not lower it",
        "from (select lane, min(run_at) as run_at from due group by lane) as first",
        "from (select lane, min(run_at) as run_at from due group by lane) as first where false",
        "tests/store/postgres/test_marks.py",
    ),
    _python(
        "writes-ride-with-leases",
        "a write that shares a commit with a claim does not wait for the disk",
        "engine.group_commit",
        "if effects == {Effect.LEASE} else []",
        "if Effect.LEASE in effects else []",
        "tests/store/postgres/test_runner.py",
    ),
)

MUTANTS = (*LEASES, *JOBS, *MARKS)
