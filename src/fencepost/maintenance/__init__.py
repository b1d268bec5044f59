"""The leader's chores (recover, promote, expire, prune), and crons, which need no leader.

The chores make things prompt; correctness does not depend on them.
"""

from typing import TYPE_CHECKING, Any

from fencepost.maintenance.maintenance import Caretaker, Maintenance

if TYPE_CHECKING:
    from fencepost.maintenance.ticker import Ticker

__all__ = ["Caretaker", "Maintenance", "Ticker"]


def __getattr__(name: str) -> Any:
    # A worker without crons does not load the code for calendars.
    if name == "Ticker":
        from fencepost.maintenance.ticker import Ticker

        return Ticker
    raise AttributeError(name)
