"""What wakes a listener, and how it waits."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Topic(StrEnum):
    """What a listener can be woken by."""

    READY = "ready"
    """Jobs may have become claimable."""
    SETTLED = "settled"
    """Jobs may have become terminal."""


class Listener(Protocol):
    """Waits for notifications from any process. One may be lost or spurious: poll as well."""

    def wait(self, timeout: float) -> bool:
        """Block until a notification came (True) or *timeout* seconds passed (False)."""
        ...

    async def wait_async(self, timeout: float) -> bool: ...

    def close(self) -> None: ...
