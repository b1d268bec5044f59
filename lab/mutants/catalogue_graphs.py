"""Mutants of the rules of waiting, and of how memory and PostgreSQL keep them.

Those of SQLite stand with its others.
"""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

CORE = "fencepost.core"
POSTGRES = "fencepost.store.postgres"
SQL = f"{POSTGRES}.schema/*.sql"
SQL_RULE = "tests/store/postgres/test_dependents.py"
"""Holds the copy of the rule in SQL against core, and has two count at once."""
PLANS = "tests/store/postgres/test_fans.py::test_a_plan_that_was_made_for_few_jobs_is_good_for_many"


def _rule(name: str, about: str, patches: tuple[tuple[str, str, str], ...], *tests: str) -> Mutant:
    """Return a mutant of what every store shares; the memory store is the quickest to ask."""
    spoilt = tuple(Patch(f"{CORE}.{module}", old, new) for module, old, new in patches)
    return Mutant(f"memory-{name}", about, Place.MEMORY, spoilt, tests)


def _python(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"{POSTGRES}.{module}", old, new),)
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, patches, tests)


def _sqls(name: str, about: str, patches: tuple[tuple[str, str], ...], *tests: str) -> Mutant:
    spoilt = tuple(Patch(SQL, old, new) for old, new in patches)
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, spoilt, tests)


def _sql(name: str, about: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(f"postgres-{name}", about, Place.POSTGRES, (Patch(SQL, old, new),), tests)


RULES = (
    _rule(
        "failed-dependency-is-the-next",
        "a job that fails with its dependency names that one, not the first that failed",
        (
            (
                "job.outcome",
                "first = job_id if earlier is None else earlier",
                "first = job_id",
            ),
        ),
        "TestDependencies",
    ),
    _rule(
        "any-waits-for-all",
        "one that is to run after any runs after all",
        (
            (
                "flows.dependents",
                "return WaitVerdict(1 if states and open_ == len(states) else MET)",
                "return WaitVerdict(open_)",
            ),
            ("flows.dependents", "    if mode is Mode.ANY:\n        return WaitVerdict(MET)\n", ""),
        ),
        "TestDependencies",
    ),
    _rule(
        "any-of-the-pruned-waits-for-ever",
        "one that waited for any of those that were pruned waits for ever once it is reopened",
        (
            (
                "flows.dependents",
                "1 if states and open_ == len(states)",
                "1 if open_ == len(states)",
            ),
        ),
        "TestReopenedDependencies",
    ),
    _rule(
        "priority-is-not-inherited",
        "an urgent job waits behind a dependent that is not",
        (
            (
                "flows.dependents",
                "urgent = min(priority, *(parent.priority for parent in parents))",
                "urgent = priority",
            ),
        ),
        "TestDependencies",
    ),
    _rule(
        "depth-is-not-checked",
        "a way of any length is taken in",
        (("flows.dependencies", "if depth > DEPENDENCY_DEPTH_MAX:", "if False:"),),
        "TestRefusedDependencies",
    ),
    _rule(
        "a-job-may-wait-for-itself",
        "a place that does not come before is taken in",
        (("flows.dependencies", "and not 0 <= on < own:", "and not 0 <= on <= own:"),),
        "TestRefusedDependencies",
    ),
)

KEPT_BY_SQLITE = (
    Mutant(
        "sqlite-spawned-in-vain-is-passed-over",
        "who gathers runs though something that was spawned had failed at once",
        Place.SQLITE,
        (
            Patch(
                "fencepost.store.sqlite.flows.spawn",
                "        if entry.decision is not None or not entry.waits.missing\n",
                "        if entry.decision is None and not entry.waits.missing\n",
            ),
        ),
        ("TestSpawning",),
    ),
)

KEPT_BY_POSTGRES = (
    _sql(
        "counts-one-too-few",
        "a job that waits for several waits for one more than there are",
        "where p.slot is null and p.missing <= fewer.count",
        "where p.slot is null and p.missing < fewer.count",
        "TestDependencies",
    ),
    _sql(
        "counts-one-too-many",
        "a job that waits for several is let go before the last",
        "set missing = p.missing - fewer.count\n",
        "set missing = p.missing - fewer.count - 1\n",
        "TestDependencies",
    ),
    _sql(
        "counts-a-batch-as-one",
        "parents that complete in one batch count as one, and a dependent of them all never runs",
        "select child, count(*)::integer as count from fencepost.dependencies",
        "select child, 1 as count from fencepost.dependencies",
        SQL_RULE,
    ),
    _sql(
        "key-goes-before-the-time",
        "a dependent with a concurrency key runs before its time",
        "case when met.run_at > t then :DELAYED when met.slot is not null then :PENDING\n",
        "case when met.slot is not null then :PENDING when met.run_at > t then :DELAYED\n",
        SQL_RULE,
    ),
    _sql(
        "counts-without-the-lock",
        "of two that end at once neither is the last",
        "where seq = any (p_seqs) and slot is null\n  order by seq for update;",
        "where seq = any (p_seqs) and slot is null;",
        SQL_RULE,
    ),
    Mutant(
        "postgres-looks-before-the-locks",
        "who comes to wait while a settlement waits for its lease is forgotten",
        Place.POSTGRES,
        (
            Patch(
                SQL,
                "  v_ended bigint[] := '{}';\nbegin\n  if p_is_joined",
                "  v_ended bigint[] := '{}';\nbegin\n"
                "  perform set_config('fencepost.early', "
                "array(select parent from fencepost.dependencies)::text, true);\n"
                "  if p_is_joined",
            ),
            Patch(
                SQL,
                "exists (select 1 from fencepost.dependencies where parent = any (p_ended)),",
                "exists (select 1 from fencepost.dependencies where parent = any (p_ended) "
                "and parent = any (current_setting('fencepost.early')::bigint[])),",
            ),
        ),
        ("TestRacingDependencies",),
    ),
    _sqls(
        "lease-of-a-parent-is-not-held",
        "a job completes while another comes to wait for it, and lets nobody go",
        (
            ("order by l.lease_token, l.part for share;", "order by l.lease_token, l.part;"),
            ("l.lease_token, l.part for share skip locked", "l.lease_token, l.part"),
        ),
        "TestRacingDependencies",
    ),
    _sqls(
        "place-of-a-parent-is-not-held",
        "a job is cancelled while another comes to wait for it",
        (
            ("limit 1 for share\n  ) as r", "limit 1\n  ) as r"),
            ("limit 1 for share skip locked\n    ) as r", "limit 1\n    ) as r"),
        ),
        "TestRacingDependencies",
    ),
    _sql(
        "plain-cancel-leaves-dependents",
        "jobs wait for ever for one that was cancelled among many",
        "where not exists (select 1 from fencepost.dependencies where parent = x)",
        "where true",
        "TestCancelling",
        "TestDependencies",
    ),
    _sql(
        "plain-cancel-keeps-slots",
        "a cancelled job keeps the slot of its concurrency key",
        "      and not exists (select 1 from fencepost.keyed_jobs where seq = x)",
        "",
        "TestCancelling",
        "TestConcurrencyKeys",
    ),
    _python(
        "failure-lets-dependents-go",
        "a job that waits for a success runs after a failure too",
        "flows.dependents",
        "    missing, failing = count_ended(waiting, ended)\n",
        "    missing, failing = count_ended(waiting, ended)\n"
        "    missing, failing = {**missing, **dict.fromkeys(failing, 0)}, {}\n",
        "TestDependencies",
    ),
    _python(
        "failure-ends-only-the-next",
        "a job waits for ever for one that ended with its own dependency",
        "flows.dependents",
        "            ended |= ended_of(endings)\n",
        "",
        "TestDependencies",
    ),
    _python(
        "stale-lease-spawns",
        "a worker that lost its lease can still spawn",
        "flows.spawn",
        "  and leases.expires_at > coalesce(%s::timestamptz, clock_timestamp())\n",
        "  and coalesce(%s::timestamptz, clock_timestamp()) is not null\n",
        "TestSpawning",
    ),
    _python(
        "gathered-is-not-counted",
        "who gathers is let go before what was spawned has ended",
        "flows.spawn",
        "yield Statement(SET_MISSING, (entry.waits.missing, gatherer.seq))",
        "yield Statement(SET_MISSING, (gatherer.missing, gatherer.seq))",
        "TestSpawning",
    ),
    Mutant(
        "postgres-gathers-without-the-lock",
        "of two that spawn at once one is not waited for",
        Place.POSTGRES,
        (
            Patch(
                f"{POSTGRES}.flows.spawn",
                "submissions.gathers and pending.slot is null\n"
                "order by pending.seq for update of pending",
                "submissions.gathers and pending.slot is null\norder by pending.seq",
            ),
            Patch(SQL, "  if p_pending <> '{}' then\n", "  if false then\n"),
            Patch(SQL, "where seq = any (p_seqs || p_pending)", "where seq = any (p_seqs)"),
        ),
        ("TestSpawning",),
    ),
    _python(
        "spawned-in-vain-is-passed-over",
        "who gathers runs though something that was spawned had failed at once",
        "flows.spawn",
        "    if entry.decision is not None:\n",
        "    if False:\n",
        "TestSpawning",
    ),
    _python(
        "gathers-what-waits-for-it",
        "two jobs wait for each other",
        "flows.spawn",
        "return known | {seq for (seq,) in rows}",
        "return known",
        "TestSpawning",
    ),
    _sql(
        "few-jobs-make-the-plan-of-failures",
        "a failure with many dependents is never recorded, if the plan was made for a few",
        "cross join lateral (\n"
        "        select child from fencepost.dependencies where parent = behind.seq offset 0\n"
        "      ) as d cross join lateral (\n"
        "        select 1 from fencepost.pending where seq = d.child offset 0\n"
        "      ) as p\n",
        "join fencepost.dependencies d on d.parent = behind.seq\n"
        "      join fencepost.pending p on p.seq = d.child\n",
        PLANS,
    ),
    _sql(
        "few-jobs-make-the-plan-of-successes",
        "a success with many dependents is never recorded, if the plan was made for a few",
        "from fewer where p.seq = any (array[fewer.seq]) and",
        "from fewer where p.seq = fewer.seq and",
        PLANS,
    ),
    _python(
        "prune-ignores-dependents",
        "a result is deleted for which somebody waits",
        "jobs.upkeep",
        "select 1 from fencepost.dependencies where dependencies.parent = done.seq\n",
        "select 1 from fencepost.dependencies where false and dependencies.parent = done.seq\n",
        "TestDependencies",
    ),
    _python(
        "reopened-is-counted-as-ended",
        "who waits for all to end does not wait for one that was opened again",
        "jobs.control",
        "    yield Statement(HOLD_UP_AGAIN, (MODE_NUMBER[Mode.ENDED], seq))\n",
        "",
        "TestReopenedDependencies",
    ),
    _python(
        "priority-is-not-inherited",
        "a dependent stands in the line of its own priority",
        "flows.enqueue",
        "priority = job.priority if entry is None else entry.priority",
        "priority = job.priority",
        "TestDependencies",
    ),
)

MUTANTS = (*RULES, *KEPT_BY_SQLITE, *KEPT_BY_POSTGRES)
