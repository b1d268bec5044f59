"""Mutants of what PostgreSQL processes remember of a server, and of what they do when it fails."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.postgres"
SQL = f"{STORE}.schema/*.sql"


def _sql(name: str, about: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, (Patch(SQL, old, new),), tests)


def _python(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"{STORE}.{module}", old, new),)
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, patches, tests)


NUMBERS = (
    _sql(
        "lost-lanes-are-not-missed",
        "a job is stored under a lane or a policy that the server has lost",
        "  if has_lane and has_policy then\n",
        "  if true then\n",
        "tests/store/postgres/test_catalog.py",
    ),
    _sql(
        "numbers-are-given-in-turn",
        "a number that was lost comes to mean another lane",
        "('x' || left(md5(p_try || ':' || p_name), 8))::bit(32)::integer & 2147483647, 1)",
        "(select count(*) from fencepost.lanes)::integer + 1 + p_try, 1)",
        "tests/store/postgres/test_catalog.py",
    ),
    _sql(
        "lanes-are-counted",
        "a worker does not notice that it knows others than there are, if they are as many",
        "    r.known <> case\n",
        "    r.known < case\n",
        "tests/store/postgres/test_catalog.py",
    ),
    _python(
        "a-new-lane-is-asked-for",
        "a process asks the server for a lane that it has just made",
        "jobs.catalog",
        "        self._views.clear()  # or the next claim would have to ask for lanes once more\n",
        "",
        "tests/store/postgres/test_catalog.py",
    ),
    _python(
        "stale-numbers-are-kept",
        "a process that learned of lost numbers continues to use them",
        "jobs.catalog",
        "            self._policies, self._policy_numbers = {}, {}\n",
        "            self._policies = {}\n",
        "tests/store/postgres/test_catalog.py",
    ),
    _python(
        "a-missing-lane-fails-the-claim",
        "a job whose lane is missing fails every claim that comes to it",
        "jobs.catalog",
        'found[number] = Lane(number, "", "", Priority.NORMAL)',
        "pass",
        "tests/store/postgres/test_catalog.py",
    ),
)

LANES = (
    _sql(
        "too-many-lanes",
        "an app has one pair of queue and type more than it may have",
        "from (select distinct queue, type from fencepost.lanes) as x) > p_max\n",
        "from (select distinct queue, type from fencepost.lanes) as x) > p_max + 1\n",
        "TestLanes",
    ),
    _sql(
        "a-lane-is-removed-under-a-submission",
        "a lane is removed while a transaction that has seen it may still store a job in it",
        "where l.fence <= pg_snapshot_xmin(pg_current_snapshot())",
        "where l.fence is not null",
        "tests/store/postgres/test_lanes.py",
    ),
    _sql(
        "a-retired-lane-is-used",
        "jobs are stored in a lane that is about to be removed",
        "exists (select 1 from fencepost.lanes where lane = p_lane and retired_at is null);",
        "exists (select 1 from fencepost.lanes where lane = p_lane);",
        "tests/store/postgres/test_lanes.py",
    ),
    _sql(
        "the-past-is-trusted",
        "a transaction that looks at the past stores a job in a lane that was removed since",
        "perform 1 from fencepost.lanes where lane = p_lane for key share;",
        "null;",
        "tests/store/postgres/test_lanes.py",
    ),
    _sql(
        "counts-outlive-their-lane",
        "a lane is removed before its counts are added up, and what is left makes the next wrong",
        "and not (l.lane in (select lane from fencepost.counters)) is true",
        "",
        "tests/store/postgres/test_lanes.py",
    ),
    _sql(
        "claims-read-all-lanes",
        "a claim looks at the lanes of all types of its queue",
        "where queue = any (s.names) and type = any (s.types))",
        "where queue = any (s.names) and type || '' = any (s.types))",
        "tests/store/postgres/test_lanes.py",
    ),
    _python(
        "callers-trust-their-memory",
        "a caller's transaction fails for a lane that was removed since it was last asked for",
        "jobs.catalog",
        "return asked_at is not None and now - asked_at < bounds.LANE_SURE",
        "return asked_at is not None",
        "tests/store/postgres/test_lanes.py",
    ),
)

MARKS = (
    _sql(
        "mark-passes-the-newest-transaction",
        "the mark passes a transaction that has a number, if none after it has ended",
        "m.next_xid else pg_current_xact_id() end,",
        "m.next_xid else pg_snapshot_xmax(pg_current_snapshot()) end,",
        "tests/store/postgres/test_marks.py",
    ),
    _sql(
        "marks-are-read-oldest-first",
        "a claim steps over all marks that an old snapshot keeps",
        "select m.low from fencepost.lane_marks m "
        "where m.lane = l.lane order by m.number desc limit 1",
        "select max(m.low) from fencepost.lane_marks m where m.lane = l.lane and m.number * 1 > 0",
        "tests/store/postgres/test_old_snapshots.py",
    ),
    _sql(
        "counts-are-all-read",
        "tidying reads every count that an old snapshot keeps",
        "perform fencepost.add_up(case when p_is_thorough then 0 else m.counter_mark end);",
        "perform fencepost.add_up(0);",
        "tests/store/postgres/test_old_snapshots.py",
    ),
    _sql(
        "tidying-reads-the-dead",
        "tidying looks for the first job in line from the beginning of time",
        "where r.lane = l.lane and r.run_at >= l.low and r.run_at < coalesce(p_until, l.low)",
        "where r.lane = l.lane",
        "tests/store/postgres/test_old_snapshots.py",
    ),
    _sql(
        "claims-step-over-ended-leases",
        "every claim reads all leases that an old snapshot keeps",
        "where expires_at >= m.lease_mark and expires_at <= t),",
        "where expires_at >= m.lease_mark),",
        "tests/store/postgres/test_old_snapshots.py",
    ),
    _sql(
        "disorder-is-forgotten",
        "what was out of order is taken for in order once it has been tidied",
        "select max(seq), max(created_at) from gone;",
        "select min(seq), min(created_at) from gone;",
        "tests/store/postgres/test_chronology.py",
    ),
)

FAILURES = (
    _python(
        "a-silent-server-is-waited-for",
        "a blocking submission waits for a stopped server for a minute",
        "engine.runner",
        "                session.answer_timeout = operation.timeout\n                postscript",
        "                postscript",
        "tests/store/postgres/test_silence.py",
    ),
    _python(
        "a-newer-schema-is-always-refused",
        "a process of the version before cannot start on a schema that allows it",
        "engine.schema",
        "if found[0] > newest:",
        "if version > newest:",
        "tests/store/postgres/test_rolling.py",
    ),
    _python(
        "a-newer-schema-is-never-refused",
        "a process starts on a schema on which it cannot run",
        "engine.schema",
        "if found[0] > newest:",
        "if found[0] > version:",
        "tests/store/postgres/test_rolling.py",
    ),
    _python(
        "a-spoilt-index-is-kept",
        "a migration that is applied again takes an index for done that never was",
        "engine.schema",
        "if found == (True,):",
        "if found is not None:",
        "tests/store/postgres/test_concurrent_migrations.py",
    ),
    _python(
        "cancelled-news-are-kept",
        "what is remembered of a submission whose caller was cancelled is never forgotten",
        "engine.group_commit",
        "            self._hooks.note(answer)\n",
        "            if not answer.posted.future.cancelled():\n"
        "                self._hooks.note(answer)\n",
        "tests/store/postgres/test_notification_sender.py",
    ),
)

MUTANTS = (*NUMBERS, *LANES, *MARKS, *FAILURES)
