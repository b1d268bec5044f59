"""Every route of the API: the operations that are declared as one, by ``request/route.py``."""

from __future__ import annotations

from fencepost.http.operations import (
    bulk,
    claims,
    completions,
    flows,
    jobs,
    leases,
    letters,
    queues,
    replays,
    stream,
    submit,
)
from fencepost.http.operations.access import session, tokens
from fencepost.http.operations.stats import attention, monitoring, series
from fencepost.http.request.route import Route

_declared = [
    each
    for module in (
        *(submit, flows, claims, leases, jobs, queues, stream, monitoring),
        *(bulk, completions, session, attention, letters, replays, series, tokens),
    )
    for each in vars(module).values()
    if isinstance(each, Route)
]
# Fixed paths come before those with a name in them: the first that matches answers.
ROUTES = sorted(_declared, key=lambda route: "{" in route.path)
