"""A store whose queues are in partitions passes the exam.

Its queues are in different partitions, except in the tests of what holds within one (TOGETHER):
there all queues are put into one. What it does not promise at all is in OTHERWISE.
"""

from __future__ import annotations

import pytest

from conformance import *  # noqa: F403 - this is how a store author does it
from conformance.harness import MakeStore
from fencepost.store.interface.store import Store
from fencepost.store.redis.partitions import (
    arrivals,
    leases,
    records,
    spawn,
    store,
    submit,
    transfer,
)
from fencepost.store.redis.partitions.store import PartitionedStore
from fencepost.store.redis.partitions.views import reader
from fencepost.testing.clock import FakeClock

OTHERWISE = {
    "test_whatever_breaks_off_leaves_neither_event_nor_jobs": (
        "an event is accepted with its jobs by the first commit; what breaks off is finished later"
    ),
    "test_jobs_up_to_the_position_are_not_looked_at": (
        "a position of a search has one of every partition; pruning has positions of its own"
    ),
    "test_expired_leases_do_not_count_even_before_recovery": (
        "a claim that is given room asks its partition twice, and takes leases back each time"
    ),
}

TOGETHER = {
    "test_a_key_belongs_to_its_type",
    "test_a_key_that_is_held_out_of_reach_refuses",
    "test_a_key_that_is_held_within_reach_returns_its_job",
    "test_a_limit_is_kept_page_by_page",
    "test_a_queue_whose_types_have_used_up_their_rates_has_no_turn",
    "test_after_any_history_every_job_is_in_one_state_and_is_counted_there",
    "test_an_atomic_batch_stores_nothing_if_a_key_is_held_out_of_reach",
    "test_an_event_is_not_sent_if_a_key_is_held_out_of_reach",
    "test_claimers_at_once_never_start_too_many",
    "test_jobs_that_came_from_another_store_are_found_by_when_they_were_created_there",
    "test_nobody_waits_for_the_rate_of_jobs_that_are_not_there",
    "test_nothing_waits_for_what_a_key_holds_out_of_reach",
    "test_one_queue_may_use_up_the_rate_of_another",
    "test_queues_and_priorities_share_the_rate_of_a_type",
    "test_queues_share_the_slots_of_a_key",
    "test_recovery_does_not_look_at_the_claimers_queues",
    "test_there_are_so_many_and_no_more",
    "test_turns_are_dealt_for_the_room_under_the_limit_of_the_app",
    "test_weights_hold_for_the_room_under_the_limit_of_the_app",
    "test_without_names_a_queue_with_nothing_to_give_has_no_turn",
    "test_without_names_all_queues_take_equal_turns",
}
"""Keys, rates, lanes, and turns of queues that are not named hold within a partition."""


@pytest.fixture
def make_store(
    runtime_url: str,
    redis_prefix: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> MakeStore:
    own = request.node.name.partition("[")[0]
    if own in OTHERWISE:
        pytest.skip(OTHERWISE[own])
    if own in TOGETHER:
        for module in (arrivals, leases, reader, records, spawn, store, submit, transfer):
            monkeypatch.setattr(module, "partition_of", lambda queue: 7)
    url = f"{runtime_url}{'&' if '?' in runtime_url else '?'}partition=queue"

    def make(clock: FakeClock) -> Store:
        return PartitionedStore(url, clock=clock, prefix=redis_prefix)

    return make
