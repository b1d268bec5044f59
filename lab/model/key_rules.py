"""Rules for concurrency keys: many jobs of one, of which few may be under way."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from fencepost.core.job.job import NewJob
from fencepost.core.job.outcome import Outcome
from fencepost.store.interface.queue import ClaimRequest
from lab.model import choices
from lab.model.server_rules import Inspecting


class Contending(Inspecting):
    """What happens to jobs that share a key."""

    @rule(
        jobs=st.lists(choices.sturdy_jobs, min_size=2, max_size=5),
        delays=st.lists(choices.delays, min_size=5, max_size=5),
        outcomes=st.lists(choices.outcomes, min_size=1, max_size=3),
    )
    def contend(self, jobs: list[NewJob], delays: list[float], outcomes: list[Outcome]) -> None:
        """Submit jobs of one key, each with a limit of its own, and let some have their turns."""
        given = [
            replace(job, type=jobs[0].type, concurrency_key="k1", delay=delay)
            for job, delay in zip(jobs, delays, strict=False)
        ]
        self.do("enqueue", given, is_atomic=False)
        request = ClaimRequest(worker="w1", limit=3, types=frozenset((jobs[0].type,)), lease_ttl=5)
        for outcome in outcomes:
            claimed = self.do("claim", request).jobs
            self.do("settle", [self._settlement(grip, outcome) for grip in claimed])
