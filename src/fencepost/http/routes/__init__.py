"""The table of routes: the API is what is written here, and its document is made of it."""

from __future__ import annotations

from fencepost.http.route import Route
from fencepost.http.routes import looking, probing, steering, submitting, working

# Fixed paths come before those with a name in them: the first that matches answers.
ROUTES: list[Route] = [
    *submitting.ROUTES,
    *working.ROUTES,
    *steering.ROUTES,
    *looking.ROUTES,
    *probing.ROUTES,
]
