"""What an operator should know about a memory store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.store.interface.overview import Finding

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld

EPHEMERAL = Finding(
    "warn",
    "ephemeral",
    "jobs are kept in this process only, and all are lost when it ends; for tests only",
)


def examine(world: MemoryWorld) -> list[Finding]:
    """Return the one thing that there is to say."""
    return [EPHEMERAL]
