"""The keys under which a running job spawns others, so that its next attempt finds them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fencepost.core.bounds import KEY_LENGTH_MAX
from fencepost.core.flows.graph import arrange, chain, side_by_side
from fencepost.core.flows.spawn import Numbers, digest, keyed
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, ClaimedJob, Encoding, Lease, NewJob
from fencepost.core.job.policy import DEFAULT_POLICY, Priority

ID = "0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77"


def parent(data: bytes = b"{}") -> ClaimedJob:
    return ClaimedJob(
        id=ID,
        type="parent",
        queue="default",
        priority=Priority.NORMAL,
        attempt=1,
        max_attempts=3,
        lease=Lease("t", 1, datetime(2026, 1, 1, tzinfo=UTC)),
        lease_ttl=30.0,
        payload=Body(data),
        policy=DEFAULT_POLICY,
    )


def job(type: str = "child", data: bytes = b"{}", queue: str = "default") -> NewJob:
    return NewJob(type=type, payload=Body(data), queue=queue)


def keys(*jobs: NewJob, numbers: Numbers | None = None) -> list[str]:
    made = keyed(parent(), jobs, numbers or Numbers()).jobs
    return [each.key.value for each in made if each.key is not None]


def test_a_later_attempt_makes_the_same_keys() -> None:
    """S1-74."""
    jobs = (job(), job(data=b"[1]"), job())
    assert keys(*jobs) == keys(*jobs)
    assert len(set(keys(*jobs))) == 3


def test_the_order_does_not_matter() -> None:
    assert set(keys(job("a"), job("b"), job("a"))) == set(keys(job("b"), job("a"), job("a")))


def test_a_key_lasts_as_long_as_its_parent_can_live_and_returns_what_is_there() -> None:
    """C15."""
    (made,) = keyed(parent(), [job()], Numbers()).jobs
    assert made.key is not None
    assert made.key.window == DEFAULT_POLICY.lifetime
    assert made.key.on_duplicate is OnDuplicate.RETURN
    assert made.key.value.startswith(f"spawn:{ID}:")
    assert len(made.key.value) < KEY_LENGTH_MAX


def test_a_key_that_was_given_stays() -> None:
    own = NewJob(type="child", key=Key("mine"))
    assert keyed(parent(), [own], Numbers()).jobs == (own,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (job("a"), job("b")),
        (job(queue="a"), job(queue="b")),
        (job(data=b"1"), job(data=b"2")),
        (NewJob(type="a", payload=Body(b"x", Encoding.BINARY)), job("a", b"x")),
        (job("a", queue="b"), job("ab", queue="b")),
    ],
)
def test_jobs_that_differ_have_different_digests(one: NewJob, other: NewJob) -> None:
    assert digest(parent(), one) != digest(parent(), other)


def test_a_digest_says_nothing_to_whoever_does_not_know_the_parent() -> None:
    """Keys are readable where payloads are encrypted."""
    assert digest(parent(b"a secret"), job()) != digest(parent(b"another"), job())


def test_the_numbers_of_a_spawn_that_may_not_have_been_stored_are_used_again() -> None:
    numbers = Numbers()
    first = keyed(parent(), [job(), job()], numbers)
    numbers.give_back(first.taken)
    again = keyed(parent(), [job(), job(), job()], numbers)
    assert again.jobs[:2] == first.jobs
    assert again.jobs[2] not in first.jobs


def test_numbers_are_given_back_in_whatever_order_calls_end() -> None:
    """Two calls at once, of which the first fails: the next job takes its number, not a third's."""
    numbers = Numbers()
    failed, stored = (keyed(parent(), [job()], numbers) for _ in range(2))
    numbers.give_back(failed.taken)
    (next_,) = keyed(parent(), [job()], numbers).jobs
    assert next_ == failed.jobs[0]
    assert next_ != stored.jobs[0]


def test_stages_are_side_by_side_and_keep_their_own_order() -> None:
    jobs = arrange(side_by_side([chain(job("a"), job("b")), job("c")]))
    assert [(each.type, each.after.on if each.after else ()) for each in jobs] == [
        ("a", ()),
        ("b", (0,)),
        ("c", ()),
    ]
    assert [each.node for each in jobs] == [None] * 3
