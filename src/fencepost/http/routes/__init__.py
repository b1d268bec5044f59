"""The table of routes: the API is what is written here, and its document is made of it."""

from __future__ import annotations

from fencepost.http.routes import control as steering
from fencepost.http.routes import probes as probing
from fencepost.http.routes import read as looking
from fencepost.http.routes import submit as submitting
from fencepost.http.routes import work as working
from fencepost.http.routes.route import Route

# Fixed paths come before those with a name in them: the first that matches answers.
ROUTES: list[Route] = [
    *submitting.ROUTES,
    *working.ROUTES,
    *steering.ROUTES,
    *looking.ROUTES,
    *probing.ROUTES,
]
