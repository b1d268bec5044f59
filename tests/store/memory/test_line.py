"""The orders beneath the memory store: lines and rolls keep them, and forget what has left."""

from __future__ import annotations

from fencepost.store.memory.engine.line import Entry, Line
from fencepost.store.memory.engine.numbered import Roll


def test_what_has_left_the_line_is_forgotten() -> None:
    """A job that is extended or edited a million times must not fill the memory."""
    line = Line()
    entry: Entry = (0, 1)
    line.join(entry)
    for time in range(1_000):
        line.leave(entry)
        entry = (time % 3, 1)
        line.join(entry)
    assert (len(line), line.first(), list(line.before((9,)))) == (1, entry, [1])
    assert len(line._heap) < 50


def test_a_roll_keeps_its_order_through_removals() -> None:
    roll: Roll[int] = Roll()
    for number in range(1_000):
        roll.add(number, -number)
    for number in range(0, 1_000, 3):
        roll.remove(number)
    roll.add(300, -300)
    kept = [number for number in range(1_000) if number % 3 or number == 300]
    assert [-thing for thing in roll.after(-1)] == kept
    assert [-thing for thing in roll.before(None)] == kept[::-1]
    assert [-thing for thing in roll.after(300)][:2] == [301, 302]
    assert [-thing for thing in roll.before(302)][:2] == [301, 300]
