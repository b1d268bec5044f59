"""Every kind of fault, by name."""

from __future__ import annotations

from lab.chaos.faults.api import API_FAULTS
from lab.chaos.faults.fault import FLEETS, Fault, NotNow
from lab.chaos.faults.files import FILE_FAULTS
from lab.chaos.faults.groups import GROUP_FAULTS
from lab.chaos.faults.network import NETWORK_FAULTS
from lab.chaos.faults.processes import PROCESS_FAULTS
from lab.chaos.faults.redis import REDIS_FAULTS
from lab.chaos.faults.servers import SERVER_FAULTS
from lab.chaos.settings import LAYOUTS

FAULTS = {
    fault.name: fault
    for faults in (
        PROCESS_FAULTS,
        FILE_FAULTS,
        SERVER_FAULTS,
        REDIS_FAULTS,
        GROUP_FAULTS,
        NETWORK_FAULTS,
        API_FAULTS,
    )
    for fault in faults
}

STORES = ("sqlite", "postgres", "redis")

__all__ = ["FAULTS", "FLEETS", "STORES", "Fault", "NotNow", "kinds_for"]


def kinds_for(store: str, fleet: str = "python", layout: str = LAYOUTS[0]) -> tuple[str, ...]:
    """Return the names of the faults that *store* and the workers of *fleet* can suffer."""
    return tuple(
        name
        for name, fault in FAULTS.items()
        if store in fault.stores and fleet in fault.fleets and layout in fault.layouts
    )
