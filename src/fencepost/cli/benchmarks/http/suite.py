"""The figures of the HTTP API, by the name that ``--only`` takes; the same on every ground."""

from __future__ import annotations

from fencepost.cli.benchmarks.bench import Bench
from fencepost.cli.benchmarks.http import paging, submitting
from fencepost.cli.benchmarks.suite import Group

GROUPS: tuple[Group[Bench], ...] = (
    Group(("http-submit", "http-batch"), submitting.measure),
    Group(("http-page",), paging.measure),
)
