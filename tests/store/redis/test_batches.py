"""Batches of new jobs: what jobs that are alike have in common is written once, and no more."""

from __future__ import annotations

from conformance.harness import Harness
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.redis.documents.document import INLINE_MAX


def test_each_job_of_a_batch_is_stored_as_it_was_given(h: Harness) -> None:
    """This engine alone encodes a part of a batch once; the lanes are known before."""
    small, other, large = Body(b"1"), Body(b"22"), Body(b"3" * (INLINE_MAX + 1))
    policies = [Policy(max_attempts=1), Policy(max_attempts=1, lifetime=60.0)]
    batch = [
        NewJob(type="mail", payload=small),
        NewJob(type="mail", payload=other),
        NewJob(type="mail", payload=large),
        NewJob(type="mail", payload=large, queue="q"),
        NewJob(type="sms", payload=small, queue="q"),
        NewJob(type="sms", payload=other, queue="q", priority=Priority.HIGH),
        NewJob(type="sms", payload=other, queue="q", policy=policies[0]),
        NewJob(type="sms", payload=other, queue="q", policy=policies[1]),
        NewJob(type="sms", payload=other, queue="q", policy=policies[1], tags={"a": "b"}),
        NewJob(type="sms", payload=other, queue="q", policy=policies[1], delay=9.0),
        NewJob(type="mail", payload=small, correlation_id="c"),
        NewJob(type="mail", payload=small, callback_url="https://example.com/"),
        NewJob(type="mail", payload=small),
    ]
    h.enqueue(*batch)  # makes the lanes
    stored = [h.get(reply.job_id) for reply in h.enqueue(*batch)]
    for given, found in zip(batch, stored, strict=True):
        for name in ("type", "queue", "priority", "policy", "tags", "correlation_id"):
            assert getattr(found, name) == getattr(given, name)
        assert (found.payload_body, found.callback_url) == (given.payload, given.callback_url)
        assert (found.run_at - found.created_at).total_seconds() == given.delay
        assert (found.expires_at - found.created_at).total_seconds() == given.policy.lifetime
    assert len({found.id for found in stored}) == len(batch)
