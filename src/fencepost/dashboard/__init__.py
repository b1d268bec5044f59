"""The dashboard: a page and its scripts, which speak to ``/v1`` and to nothing else.

Its source is ``ui/``; ``make ui``, or building a wheel, puts the result into ``static/``.
"""

from fencepost.dashboard.pages import dashboard_routes

__all__ = ["dashboard_routes"]
