"""Dead letters are also a stream of their type (S3-23), which no other engine has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis
from tests.store.redis.meddling import after_script

from conformance.harness import Harness
from fencepost.core.filter import PageRequest
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.redis.store import RedisStore


@pytest.fixture
def letters(redis_url: str, redis_prefix: str) -> Iterator[Letters]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield Letters(client, f"{redis_prefix}fn:mail:dlq")


class Letters:
    """What another program reads from the stream."""

    def __init__(self, client: redis.Redis, stream: str) -> None:
        self._client = client
        self._stream = stream

    def jobs(self) -> list[tuple[str, str]]:
        entries: list[tuple[str, dict[str, str]]] = self._client.xrange(self._stream)  # type: ignore[assignment]
        return [(fields["job_id"], fields["state"]) for _, fields in entries]


@pytest.mark.requirement("S3-23")
def test_a_dead_letter_is_on_the_stream_of_its_type(h: Harness, letters: Letters) -> None:
    dead = [h.job_in(state) for state in (State.FAILED, State.DEAD_LETTER)]
    h.job_in(State.CANCELLED)
    h.job_in(State.DEAD_LETTER, type="other")
    assert letters.jobs() == [(dead[0], "failed"), (dead[1], "dead_letter")]


@pytest.mark.parametrize("way", ["retry", "replay", "discard", "prune"])
def test_what_is_no_dead_letter_any_more_is_off_the_stream(
    h: Harness, letters: Letters, way: str
) -> None:
    job_id = h.job_in(State.DEAD_LETTER)
    assert letters.jobs() != []
    if way == "prune":
        h.advance(timedelta(hours=1))
        h.run(h.store.upkeep.prune(PruneRequest(limit=10, keep={State.DEAD_LETTER: 1.0})))
    elif way == "discard":
        h.run(h.store.control.discard([job_id]))
    else:
        getattr(h, way)(job_id)
    assert letters.jobs() == []


@pytest.mark.parametrize("script", [1, 2, 3])
def test_a_letter_that_is_retried_while_it_is_read_ends_no_list(h: Harness, script: int) -> None:
    """Only Redis reads the list and its jobs in two scripts."""
    letters = []
    for _ in range(3):
        letters.append(h.job_in(State.DEAD_LETTER))
        h.advance(0.001)
    assert isinstance(h.store, RedisStore)
    after_script(h.store, "read", lambda: h.retry(letters[-1]), script)
    found: list[str] = []
    position: int | None = None
    while True:
        page = h.run(h.store.reader.dead_letters(None, PageRequest(1, position)))
        assert all(letter.state is State.DEAD_LETTER for letter in page.letters)
        found += [letter.job_id for letter in page.letters]
        if (position := page.next) is None:
            break
    assert found in ([letters[1], letters[0]], letters[::-1])
