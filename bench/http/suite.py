"""The figures of the HTTP API, by the name that ``--only`` takes; the same on every ground."""

from __future__ import annotations

from bench.bench import Bench
from bench.http import dashboard, search, submit
from bench.suite import Group

GROUPS: tuple[Group[Bench], ...] = (
    Group(("http-submit", "http-batch"), submit.measure),
    Group(("http-page",), search.measure),
    Group(("http-dashboard", "http-dashboard-drawn"), dashboard.measure),
)
