"""Mutants of the rules of waiting, and of how memory and PostgreSQL keep them.

Those of SQLite stand with its others.
"""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

CORE = "fencepost.core"
MEMORY = "fencepost.store.memory"
POSTGRES = "fencepost.store.postgres"
SQL = f"{POSTGRES}.migrations/0001_initial.sql"


def _rule(name: str, about: str, patches: tuple[tuple[str, str, str], ...], *tests: str) -> Mutant:
    """Return a mutant of what every store shares; the memory store is the quickest to ask."""
    spoilt = tuple(Patch(f"{CORE}.{module}", old, new) for module, old, new in patches)
    return Mutant(f"memory-{name}", about, Place.MEMORY, spoilt, tests)


def _memory(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"{MEMORY}.{module}", old, new),)
    return Mutant(f"memory-{name}", about, Place.MEMORY, patches, tests)


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
        "culprit-is-the-next",
        "whoever ends with another names that one, not the first of the way",
        (
            (
                "flows.dependents",
                "culprit = job_id if failure is None or failure.culprit is None "
                "else failure.culprit",
                "culprit = job_id",
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
                "return Verdict(1 if states and open_ == len(states) else MET)",
                "return Verdict(open_)",
            ),
            ("flows.dependents", "    if mode is Mode.ANY:\n        return Verdict(MET)\n", ""),
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
        (("flows.dependencies", "if not 0 <= place < own:", "if not 0 <= place <= own:"),),
        "TestRefusedDependencies",
    ),
)

KEPT_IN_MEMORY = (
    _memory(
        "counts-one-too-few",
        "a job that waits for several waits for one more than there are",
        "jobs.finish",
        "            jobs.change(child, waits=replace(child.waits, missing=missing))\n",
        "            pass\n",
        "TestDependencies",
    ),
    _memory(
        "counts-one-too-many",
        "a job that waits for several is let go before the last",
        "jobs.finish",
        "        elif missing:\n            jobs.change(child,",
        "        elif missing > 1:\n            jobs.change(child,",
        "TestDependencies",
    ),
    _memory(
        "failure-lets-dependents-go",
        "whoever waited for a success runs after a failure too",
        "jobs.finish",
        "        if doom is not None:\n            decision = propagated(ended.state",
        "        if False:\n            decision = propagated(ended.state",
        "TestDependencies",
    ),
    _memory(
        "failure-ends-only-the-next",
        "whoever waited for a job that was ended with another waits for ever",
        "jobs.finish",
        "    return (*call_back(jobs, record, now), *follow(jobs, record, now))\n",
        "    told = call_back(jobs, record, now)\n"
        "    return (*told, *(() if record.attempt == 0 and record.waits else "
        "follow(jobs, record, now)))\n",
        "TestDependencies",
    ),
    _memory(
        "stale-lease-spawns",
        "a worker that lost its lease can still spawn",
        "flows.spawn",
        "if record is None or not record.is_leased_by(spawn.token, now):",
        "if record is None:",
        "TestSpawning",
    ),
    _memory(
        "gathered-is-not-counted",
        "who gathers is let go before what was spawned has ended",
        "flows.spawn",
        "    jobs.change(gatherer, priority=entry.priority, waits=entry.waits)\n",
        "    jobs.change(gatherer, priority=entry.priority)\n",
        "TestSpawning",
    ),
    _memory(
        "spawned-in-vain-is-passed-over",
        "who gathers runs though something that was spawned had failed at once",
        "flows.spawn",
        "    if entry.decision is not None:\n",
        "    if False:\n",
        "TestSpawning",
    ),
    _memory(
        "gathers-what-waits-for-it",
        "two jobs wait for each other",
        "flows.spawn",
        "if each not in known and not _waits_for(jobs, each, gatherer)]",
        "if each not in known and each is not gatherer]",
        "TestSpawning",
    ),
    _memory(
        "prune-ignores-dependents",
        "a result is deleted for which somebody waits",
        "jobs.control",
        "if _is_old(record, keep, now) and not _is_needed(jobs, record):",
        "if _is_old(record, keep, now):",
        "TestDependencies",
    ),
    _memory(
        "reopened-is-counted-as-ended",
        "who waits for all to end does not wait for one that was opened again",
        "jobs.enqueue",
        "    _hold_up_again(jobs, record)\n",
        "",
        "TestReopenedDependencies",
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
        "counts-without-the-lock",
        "of two that end at once neither is the last",
        "where seq = any (p_seqs) and slot is null\n  order by seq for update;",
        "where seq = any (p_seqs) and slot is null;",
        "TestRacingDependencies",
    ),
    Mutant(
        "postgres-looks-before-the-locks",
        "who comes to wait while a settlement waits for its lease is forgotten",
        Place.POSTGRES,
        (
            Patch(
                SQL,
                "  v_told json;\nbegin\n  if p_is_joined",
                "  v_told json;\n"
                "  v_early bigint[] := array(select parent from fencepost.dependency);\n"
                "begin\n  if p_is_joined",
            ),
            Patch(
                SQL,
                "if exists (select 1 from fencepost.dependency where parent = any (v_ended)) then",
                "if exists (select 1 from fencepost.dependency "
                "where parent = any (v_ended) and parent = any (v_early)) then",
            ),
        ),
        ("TestRacingDependencies",),
    ),
    _sqls(
        "lease-of-a-parent-is-not-held",
        "a job completes while another comes to wait for it, and lets nobody go",
        (
            ("order by l.secret, l.part for share;", "order by l.secret, l.part;"),
            ("order by l.secret, l.part for share skip locked", "order by l.secret, l.part"),
        ),
        "TestRacingDependencies",
    ),
    _sqls(
        "place-of-a-parent-is-not-held",
        "a job is cancelled while another comes to wait for it",
        (
            ("limit 1 for share\n      ) as r", "limit 1\n      ) as r"),
            ("limit 1 for share skip locked\n      ) as r", "limit 1\n      ) as r"),
        ),
        "TestRacingDependencies",
    ),
    _python(
        "failure-lets-dependents-go",
        "whoever waited for a success runs after a failure too",
        "flows.dependents",
        "        if verdict.doom is not None:\n",
        "        if False:\n",
        "TestDependencies",
    ),
    _python(
        "failure-ends-only-the-next",
        "whoever waited for a job that was ended with another waits for ever",
        "flows.dependents",
        "            ended += ended_of(endings)\n",
        "",
        "TestDependencies",
    ),
    _python(
        "stale-lease-spawns",
        "a worker that lost its lease can still spawn",
        "flows.spawn",
        "  and lease.expires_at > coalesce(%s::timestamptz, clock_timestamp())\n",
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
                "job.gathers and pending.slot is null\norder by pending.seq for update of pending",
                "job.gathers and pending.slot is null\norder by pending.seq",
            ),
            Patch(SQL, "  if p_pending <> '{}' then\n", "  if false then\n"),
            Patch(SQL, "where seq = any (v_rest || p_pending)", "where seq = any (v_rest)"),
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
    _python(
        "prune-ignores-dependents",
        "a result is deleted for which somebody waits",
        "jobs.upkeep",
        "select 1 from fencepost.dependency where dependency.parent = done.seq\n",
        "select 1 from fencepost.dependency where false and dependency.parent = done.seq\n",
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

MUTANTS = (*RULES, *KEPT_IN_MEMORY, *KEPT_BY_POSTGRES)
