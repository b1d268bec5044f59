"""Refuses tokens without a role of the route; their queues are checked in ``scope.py``."""

from __future__ import annotations

from fencepost.core.access.tokens import Principal, Role
from fencepost.errors import ForbiddenError
from fencepost.http.request.route import Route


class RoleCheck:
    """The check of one route, for every request."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._roles = frozenset((*route.roles, Role.ADMIN))

    def check(self, principal: Principal) -> None:
        """Raise ForbiddenError unless the route allows *principal*."""
        route = self._route
        if not route.roles:
            return
        if principal.roles.isdisjoint(self._roles):
            wanted = " or ".join(route.roles)
            raise ForbiddenError(
                f"token {principal.name!r} lacks role {wanted}; create another with: "
                f"fencepost tokens create NAME --role {route.roles[0]}"
            )
        if route.is_store_wide and principal.queues is not None:
            raise ForbiddenError(
                f"this concerns all queues, and token {principal.name!r} may use only "
                f"{', '.join(sorted(principal.queues))}"
            )
