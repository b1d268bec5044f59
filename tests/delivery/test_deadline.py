"""One deadline for all the waits of a delivery."""

from __future__ import annotations

import pytest

from fencepost.delivery.sender import Deadline
from fencepost.testing import FakeClock


def test_what_is_left_grows_less_and_then_ends() -> None:
    clock = FakeClock()
    deadline = Deadline(clock, 10)
    clock.advance(4)
    assert deadline.left() == 6
    clock.advance(6)
    with pytest.raises(TimeoutError, match=r"Webhooks\(timeout=…\)"):
        deadline.left()


def test_a_deadline_can_come_sooner_but_not_later() -> None:
    deadline = Deadline(FakeClock(), 10)
    deadline.shorten(20)
    assert deadline.left() == 10
    deadline.shorten(1)
    assert deadline.left() == 1
