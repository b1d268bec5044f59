"""How places that count only their own running jobs share one limit of all.

A place has a quota: it starts no job while as many run there. The bound of a place is what may run
there, the quota or what runs already; all bounds together never exceed the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Level(NamedTuple):
    """How a place stands."""

    quota: int
    running: int

    @property
    def bound(self) -> int:
        """The most jobs that can run there before its quota is raised."""
        return max(self.quota, self.running)


class Wish(NamedTuple):
    """That a place has jobs which its quota keeps from starting."""

    since: int
    """When this began; a place whose quota was changed starts again."""
    more: int
    """How many more jobs could be started."""


def share(limit: int, levels: Mapping[int, Level], wishes: Mapping[int, Wish]) -> dict[int, int]:
    """Return the quota that each place should have.

    Places that could start more have equal shares of what the others do not use, as far as they can
    use them. Of two, the one with the smaller quota comes first, then the one that waits longer. If
    there is enough for them, the others keep what they have.
    """
    idle = {place: each for place, each in levels.items() if place not in wishes}
    room = max(limit - sum(each.running for each in idle.values()), 0)
    order = sorted(wishes, key=lambda place: (levels[place].quota, wishes[place].since, place))
    most = {place: levels[place].running + wishes[place].more for place in order}
    quotas = dict.fromkeys(order, 0)
    while room and (eager := [place for place in order if quotas[place] < most[place]]):
        part = max(room // len(eager), 1)
        for place in eager:
            more = min(part, most[place] - quotas[place], room)
            quotas[place] += more
            room -= more
    for place, level in idle.items():
        unused = min(max(level.quota - level.running, 0), room)
        quotas[place] = min(level.quota, level.running + unused)
        room -= unused
    return quotas
