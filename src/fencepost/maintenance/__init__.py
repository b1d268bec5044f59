"""One leader's chores: recover, promote, expire, prune; and the crons, which need no leader.

Correctness does not depend on the chores.
"""

from typing import TYPE_CHECKING, Any

from fencepost.maintenance.caretaker import Caretaker
from fencepost.maintenance.maintenance import Maintenance

if TYPE_CHECKING:
    from fencepost.maintenance.ticker import Ticker

__all__ = ["Caretaker", "Maintenance", "Ticker"]


def __getattr__(name: str) -> Any:
    # A worker without crons never pays for importing what knows about calendars.
    if name == "Ticker":
        from fencepost.maintenance.ticker import Ticker

        return Ticker
    raise AttributeError(name)
