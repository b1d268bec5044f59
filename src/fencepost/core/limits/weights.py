"""Fair turns between queues: which queue each free slot is offered to.

Weights become a repeating row of turns in which each queue's turns are spread evenly (``mail=3
bulk=1`` → mail, mail, bulk, mail). A worker only remembers how many turns it has given out: shares
are exact over time, and every queue gets a turn within one row (S4-3, C14).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import gcd

from fencepost.core.bounds import WEIGHT_MAX, WEIGHT_TOTAL_MAX
from fencepost.core.display import shown
from fencepost.core.values.names import check_count, check_queue
from fencepost.errors import ConfigurationError


def parse_weights(queues: Mapping[str, int] | Sequence[str]) -> dict[str, int]:
    """Return the weight of each queue, or raise ConfigurationError or InvalidJobError."""
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        raise ConfigurationError(
            f"queues must be a list or map names to weights, got {shown(queues)}"
        )
    weights = (
        dict(queues) if isinstance(queues, Mapping) else {check_queue(name): 1 for name in queues}
    )
    if not weights:
        raise ConfigurationError("a worker needs at least one queue; leave queues out for all")
    for name, weight in weights.items():
        check_count(weight, f"weight of queue {check_queue(name)!r}", 1, WEIGHT_MAX)
    if sum(weights.values()) > WEIGHT_TOTAL_MAX:
        raise ConfigurationError(f"queue weights may add up to at most {WEIGHT_TOTAL_MAX}")
    return weights


def row_of_turns(weights: Mapping[str, int]) -> tuple[str, ...]:
    """Return one full row of turns, each queue's spread evenly."""
    return _row_of_turns(tuple(weights.items()))


@lru_cache(maxsize=128)
def _row_of_turns(weights: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    divisor = gcd(*(weight for _, weight in weights))
    turns = [
        ((turn + 0.5) / (weight // divisor), index, name)
        for index, (name, weight) in enumerate(weights)
        for turn in range(weight // divisor)
    ]
    return tuple(name for _, _, name in sorted(turns))


def turns_from(weights: Mapping[str, int], turn: int) -> tuple[str, ...]:
    """Return one full row of turns, beginning with turn number *turn*."""
    row = row_of_turns(weights)
    start = turn % len(row)
    return row[start:] + row[:start]


def deal(weights: Mapping[str, int], turn: int, count: int) -> dict[str, int]:
    """Return how many of the *count* turns after turn number *turn* each queue gets.

    The queues are in the order of their turns, which is also the order in which they are offered
    the turns that an empty queue leaves over.
    """
    row = turns_from(weights, turn)
    rounds, rest = divmod(count, len(row))
    part = Counter(row[:rest])
    whole = Counter(row)
    return {name: rounds * whole[name] + part[name] for name in dict.fromkeys(row)}
