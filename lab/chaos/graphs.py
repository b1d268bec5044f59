"""Batches in which jobs wait for each other: which waits for which follows from the keys alone.

So a batch that is repeated, also after a crash, contains the same again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost import NewJob
from fencepost.core.flows.dependencies import Dependencies, Mode

Shape = tuple[tuple[int, ...], ...]
"""For each job the places of those that it waits for."""

SHAPES: dict[int, tuple[Shape, ...]] = {
    2: (((), (0,)),),
    3: (((), (0,), (1,)), ((), (), (0, 1))),
    4: (((), (0,), (0,), (1, 2)), ((), (0,), (1,), (2,)), ((), (), (), (0, 1, 2))),
}
"""Diamonds, chains and fan-ins, by how many jobs they are of."""
SIZES = tuple(SHAPES)


def woven(keys: Sequence[str], jobs: Sequence[NewJob]) -> list[NewJob]:
    """Return *jobs*, whose keys are *keys*, each behind those that it is to wait for."""
    number = int(keys[0].rpartition("/")[2])
    shapes = SHAPES[len(jobs)]
    shape = shapes[number % len(shapes)]
    mode = Mode.ENDED if number % 5 == 0 else Mode.ALL
    return [
        replace(job, after=Dependencies(places, mode) if places else None)
        for job, places in zip(jobs, shape, strict=True)
    ]
