"""Mutants of leases: their numbers, lengths and deadlines, and the bytes of a claim."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

SQLITE = "fencepost.store.sqlite"
POSTGRES = "fencepost.store.postgres"
SQL = f"{POSTGRES}.schema/*.sql"
LEASE = "fencepost.core.job.timeouts"


def _mutant(
    place: Place, name: str, about: str, target: str, patch: tuple[str, str], *tests: str
) -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (Patch(target, *patch),), tests)


VERSIONS = (
    _mutant(
        Place.MEMORY,
        "version-counts",
        "a lease's number is one more than the last that is known, whatever was lost",
        LEASE,
        ("    return max(last + 1, now)\n", "    return last + 1\n"),
        "TestClaiming",
        "tests/core/test_lease.py",
    ),
    _mutant(
        Place.SQLITE,
        "version-counts",
        "the same, in the row of the job",
        f"{SQLITE}.jobs.lease",
        ("max(lease_version + 1, ?)", "lease_version + 1 + 0 * ?"),
        "TestClaiming",
    ),
    _mutant(
        Place.SQLITE,
        "version-is-the-clock",
        "two claims in one instant, or with a clock that was set back, have one number",
        f"{SQLITE}.jobs.lease",
        ("max(lease_version + 1, ?)", "max(lease_version, ?)"),
        "TestClaiming",
    ),
    _mutant(
        Place.POSTGRES,
        "version-counts",
        "a lease's number is one more than the last that the server remembers",
        SQL,
        (
            "row(t, (extract(epoch from t) * 1000000)::bigint, r.worker",
            "row(t, 1, r.worker",
        ),
        "TestClaiming",
        "tests/store/postgres/test_fence.py",
    ),
    _mutant(
        Place.POSTGRES,
        "version-is-the-clock",
        "two claims in one instant, or with a clock that was set back, have one number",
        SQL,
        (
            "array_agg(greatest(y.lease_version + 1, v_first) order by y.n)",
            "array_agg(greatest(y.lease_version, v_first) order by y.n)",
        ),
        "TestClaiming",
        "TestAttempts",
    ),
    _mutant(
        Place.POSTGRES,
        "lease-begins-before-its-job-is-taken",
        "a lease begins when its claim read the clock, before the last lease of its job ended",
        SQL,
        (
            "    t := coalesce(p_terms.now, clock_timestamp());\n    p_terms.started_at := t;\n",
            "",
        ),
        "TestClaiming",
        "tests/store/postgres/test_claiming.py",
    ),
    _mutant(
        Place.POSTGRES,
        "first-version-is-one",
        "a success of a first attempt is kept under another number than its lease had",
        SQL,
        (
            "returns void language plpgsql as $$\ndeclare\n"
            "  v_lease_version constant bigint := fencepost.next_version(0, e.started_at);\n",
            "returns void language plpgsql as $$\ndeclare\n"
            "  v_lease_version constant bigint := 1;\n",
        ),
        "TestSettling",
        "TestAttempts",
    ),
)

DEADLINES = (
    _mutant(
        Place.SQLITE,
        "heartbeat-passes-the-timeout",
        "a heartbeat extends a lease past the job's execution timeout",
        f"{SQLITE}.jobs.heartbeat",
        (
            "min(now + seconds_to_us(asked), latest))",
            "max(now + seconds_to_us(asked), 0 * latest))",
        ),
        "TestDeadlines",
    ),
    _mutant(
        Place.POSTGRES,
        "heartbeat-passes-the-timeout",
        "a heartbeat extends a lease past the job's execution timeout",
        SQL,
        ("interval '1 microsecond', e.deadline));", "interval '1 microsecond'));"),
        "TestDeadlines",
    ),
    _mutant(
        Place.POSTGRES,
        "claim-passes-the-timeout",
        "a lease that is longer than the execution timeout ends after it",
        SQL,
        ("t + least(v_ttl, v_timeout) * interval", "t + v_ttl * interval"),
        "TestDeadlines",
    ),
    _mutant(
        Place.SQLITE,
        "claim-passes-the-timeout",
        "a lease that is longer than the execution timeout ends after it",
        f"{SQLITE}.jobs.lease",
        ("            end = min(self._now + ttl, latest)\n", "            end = self._now + ttl\n"),
        "TestDeadlines",
    ),
    _mutant(
        Place.POSTGRES,
        "part-forgets-its-deadline",
        "jobs that are put into a lease of their own may be extended without end",
        SQL,
        (
            "    e.lease_ttl, e.deadline\n  from unnest",
            "    e.lease_ttl, 'infinity'\n  from unnest",
        ),
        "TestDeadlines",
    ),
    _mutant(
        Place.MEMORY,
        "timeout-is-a-lost-worker",
        "a lease that lasted until its deadline is taken back as if its worker had died",
        LEASE,
        (
            "    return timed_out(policy.timeout) if is_overdue else LEASE_EXPIRED\n",
            "    return LEASE_EXPIRED\n",
        ),
        "TestDeadlines",
    ),
    _mutant(
        Place.POSTGRES,
        "lost-worker-is-a-timeout",
        "every lease that ran out is taken back as a timeout",
        SQL,
        ("    e.expires_at >= e.deadline\n", "    true\n"),
        "TestRecovering",
        "TestDeadlines",
    ),
    _mutant(
        Place.POSTGRES,
        "heartbeat-forgets-the-claims-time",
        "a heartbeat that names no time extends by five minutes",
        SQL,
        ("coalesce(b.ttl, e.lease_ttl) * interval", "coalesce(b.ttl, 300000000) * interval"),
        "TestLeaseLengths",
    ),
    _mutant(
        Place.SQLITE,
        "heartbeat-forgets-the-jobs-time",
        "a heartbeat that names no time extends by the claim's, not by the job's own",
        f"{SQLITE}.jobs.heartbeat",
        (
            "asked = ttl_of(policy, (job.lease_ttl or 0) / 1e6)",
            "asked = (job.lease_ttl or 0) / 1e6",
        ),
        "TestLeaseLengths",
    ),
    _mutant(
        Place.SERVER,
        "heartbeat-has-a-time-of-its-own",
        "a heartbeat over HTTP that names no time extends by that of a claim that names none",
        "fencepost.wire.leases",
        ("    lease_ttl: LeaseTtl | None = None\n", "    lease_ttl: LeaseTtl | None = 300.0\n"),
        "tests/http/test_leases.py",
    ),
)

SIZES = (
    _mutant(
        Place.SQLITE,
        "claim-of-any-size",
        "a claim takes as many bytes as there are",
        f"{SQLITE}.jobs.lease",
        ("    if sum(sizes) <= CLAIM_BYTES_MAX:\n", "    if sizes:\n"),
        "TestSizes",
    ),
    _mutant(
        Place.SQLITE,
        "rate-counts-what-was-left",
        "jobs that were too much for a claim count as started",
        f"{SQLITE}.jobs.claim",
        ("        budget.give_back(leasing.left)\n", ""),
        "TestSizes",
    ),
    _mutant(
        Place.POSTGRES,
        "claim-of-any-size",
        "a claim takes as many bytes as there are",
        SQL,
        ("case when (select sum(size) from chosen) <= p_bytes or", "case when true or"),
        "TestSizes",
    ),
    _mutant(
        Place.POSTGRES,
        "checkpoints-do-not-count",
        "a claim takes checkpoints of any size",
        SQL,
        (
            "case when taken.lease_version > 0 then fencepost.checkpoint_size",
            "case when false then fencepost.checkpoint_size",
        ),
        "TestSizes",
    ),
    _mutant(
        Place.POSTGRES,
        "what-is-left-is-lost",
        "of the jobs that were too much for a claim, all but one are gone",
        SQL,
        (
            "x.attempts, x.lease_versions);\n    v_again",
            "x.attempts, x.lease_versions) limit 1;\n    v_again",
        ),
        "TestSizes",
    ),
    _mutant(
        Place.WORKER,
        "settles-any-size",
        "a group of settlements has results of any size",
        "fencepost.worker.run.settler",
        ("if room < 0 and batch:", "if room is None:"),
        "tests/worker/test_settler.py",
    ),
)

MUTANTS = (*VERSIONS, *DEADLINES, *SIZES)
