"""What brings jobs up to date: leases that ran out, due times that came, lifetimes that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.store.interface.replies import Moved
from fencepost.store.memory.jobs import finish

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


def recover(world: MemoryWorld, limit: int) -> list[Moved]:
    """Take back jobs whose leases ran out."""
    moved = finish.recover(world.jobs, limit, world.clock.rng, world.now)
    world.announce_room()
    return moved


def promote(world: MemoryWorld, limit: int) -> list[Moved]:
    """Make due jobs claimable."""
    return finish.promote(world.jobs, limit, world.now)


def expire(world: MemoryWorld, limit: int) -> list[Moved]:
    """Dead-letter live jobs past their lifetime."""
    moved = finish.expire(world.jobs, limit, world.now)
    world.announce_room()
    return moved


def tidy(world: MemoryWorld) -> None:
    """Do nothing: there are no books to keep in order."""
