"""One leader's chores: recover, promote, expire, prune. Correctness does not depend on them."""

from fencepost.maintenance.maintenance import Maintenance

__all__ = ["Maintenance"]
