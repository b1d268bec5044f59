"""Jobs are found by when they were created, also those that were long in coming.

Store-specific: numbers are given out while a submission is under way, and others may get theirs and
commit meanwhile. The server's own clock is used, since it is the one that passes while jobs wait.
"""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.store.postgres.jobs.upkeep import THOROUGH_EVERY
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

# A submission takes as long as it might if it had to wait for somebody.
SLOW = """
create function slow() returns trigger language plpgsql as $$
begin
  perform pg_sleep(0.6);
  return new;
end $$;
create trigger slow before insert on fencepost.submissions for each row execute function slow();
"""
KINDS = {
    "plain": NewJob(type="mail"),
    "with a key": NewJob(type="mail", key=Key("k")),
    "of a flow": NewJob(type="mail", flow="f", node="n"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_submission_that_took_long_is_written_down(
    store: PostgresStore, postgres_url: str, kind: str
) -> None:
    """S1-107: what has got a number since it read the clock may have been created before it."""
    store.run(store.queue.enqueue([NewJob(type="mail")]))
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        assert admin.execute("select * from fencepost.disorder").fetchall() == []
        admin.execute(SLOW)
        store.run(store.queue.enqueue([KINDS[kind]]))
        ((seq, created_at),) = admin.execute("select * from fencepost.disorder").fetchall()
        last = admin.execute(
            "select max(seq), max(created_at) from fencepost.submissions"
        ).fetchone()
    assert last is not None
    assert seq >= last[0]
    assert created_at >= last[1]


def test_a_job_of_a_flow_that_waited_after_it_was_numbered_is_written_down(
    store: PostgresStore, postgres_url: str
) -> None:
    """S1-107: jobs with higher numbers were created long before it."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        # As if those that came meanwhile had been there for a while.
        store.run(store.queue.enqueue([NewJob(type="mail")] * 3))
        admin.execute(
            "update fencepost.submissions "
            "set seq = seq + 1000, created_at = now() - '1 m'::interval"
        )
        store.run(store.queue.enqueue([NewJob(type="mail", flow="f", node="n")]))
        assert admin.execute("select count(*) from fencepost.disorder").fetchone() == (1,)


def test_what_is_written_down_is_made_one_in_time(store: PostgresStore, postgres_url: str) -> None:
    """Only the latest is ever asked for: a store that is loaded in pages writes down thousands."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        for minutes in (3, 1, 2):
            store.run(store.queue.enqueue([NewJob(type="mail")]))
            admin.execute("select fencepost.note_disorder(now() + %s * '1 m'::interval)", [minutes])
        latest = "select max(seq), max(created_at) from fencepost.disorder"
        before = admin.execute(latest).fetchall()
        for _ in range(THOROUGH_EVERY):
            store.run(store.upkeep.tidy())
        assert admin.execute("select seq, created_at from fencepost.disorder").fetchall() == before


def test_what_is_written_down_is_not_relied_on(store: PostgresStore, postgres_url: str) -> None:
    """S1-107: a late number with an early time is found on both sides of any time."""
    store.run(store.queue.enqueue([NewJob(type="mail")] * 20))
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "update fencepost.submissions set created_at = now() - (case when seq % 3 = 0 "
            "then seq else 100 - seq end) * '1 m'::interval"
        )
        admin.execute("select fencepost.note_disorder(now())")
    store.run(store.queue.enqueue([NewJob(type="mail")] * 5))
    jobs = store.run(store.reader.find(JobFilter(), PageRequest(100))).jobs
    assert len(jobs) == 25
    for minutes in range(0, 110, 3):
        at = jobs[0].created_at - timedelta(minutes=minutes)
        later = store.run(store.reader.find(JobFilter(created_after=at), PageRequest(100))).jobs
        earlier = store.run(store.reader.find(JobFilter(created_before=at), PageRequest(100))).jobs
        assert later == [job for job in jobs if job.created_at >= at]
        assert earlier == [job for job in jobs if job.created_at < at]
