"""What an operator pauses or bounds: queues, types, the whole store."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from fencepost.core.limits.type_limits import TypeLimits
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation, Wakes


class Scope(StrEnum):
    """What can be paused or limited."""

    APP = "app"
    QUEUE = "queue"
    TYPE = "type"


class SettingsFacet(Facet, abstract=True):
    """What an operator pauses or bounds: queues, types, the whole store."""

    @operation(Effect.WRITE, has_content=False)
    def pause(self, scope: Scope, name: str) -> Operation[None]:
        """Claim no more jobs of a queue or a type."""

    @operation(Effect.WRITE, has_content=False, wakes=Wakes.READY)
    def resume(self, scope: Scope, name: str) -> Operation[None]:
        """Claim jobs of a queue or a type again."""

    @operation(Effect.WRITE, has_content=False, wakes=Wakes.READY)
    def limit(self, scope: Scope, name: str, max_running: int | None) -> Operation[None]:
        """Bound the running jobs of a queue or (scope APP, any name) of the whole store."""

    @operation(Effect.WRITE, has_content=False, wakes=Wakes.READY)
    def limit_types(self, limits: Mapping[str, TypeLimits]) -> Operation[None]:
        """Set all limits of types, and clear those that are None.

        One that is as it was changes nothing. A changed rate counts what the old one had counted;
        one that is cleared forgets it.
        """

    @operation(Effect.READ, has_content=False)
    def app_limit(self) -> Operation[int | None]:
        """Return the limit of the whole store; None if it has none."""
