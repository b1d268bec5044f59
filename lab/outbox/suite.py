"""Every death of the story, and what was found wrong after it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from lab.outbox.limits import LimitStory
from lab.outbox.story import Death, Kind, Story
from lab.redis import own_prefix, wipe

CALLS_MAX = 5_000
STORIES: dict[str, type[Story]] = {"outbox": Story, "limits": LimitStory}


class Failure(msgspec.Struct, frozen=True):
    """A death after which something was wrong."""

    number: int
    kind: str
    call: str
    wrong: list[str]


class Report(msgspec.Struct, frozen=True):
    """What was tried, and what failed."""

    calls: int
    deaths: int
    failures: list[Failure]
    seconds: float


def run(url: str, *, stride: int = 1, offset: int = 0, name: str = "outbox") -> Report:
    """Play the story without a death, and then with each *stride*-th, before and after the call."""
    began = time.monotonic()
    whole = play(url, None, name)
    failures = [Failure(0, "", "", whole.wrong)] if whole.wrong else []
    deaths = list(_deaths(len(whole.calls), stride, offset))
    for death in deaths:
        story = play(url, death, name)
        assert story.has_died, f"nobody died at call {death.number}"
        if story.wrong:
            call = whole.calls[death.number - 1]
            failures.append(Failure(death.number, death.kind.value, call, story.wrong))
    seconds = time.monotonic() - began
    return Report(len(whole.calls), len(deaths), failures, round(seconds, 1))


def play(url: str, death: Death | None, name: str = "outbox") -> Story:
    """Play a story once, on keys of its own."""
    prefix = own_prefix()
    story = STORIES[name](f"{url}?partition=queue&durability=none", prefix, death)
    try:
        story.play()
    finally:
        wipe(url, prefix.removesuffix("}:"))
    return story


def _deaths(calls: int, stride: int, offset: int) -> Iterator[Death]:
    assert 0 < calls < CALLS_MAX
    for number in range(1 + offset, calls + 1, stride):
        for kind in Kind:
            yield Death(number, kind)
