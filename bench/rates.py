"""What a rate costs: claims of a type that has one, beside claims of one that has none.

The rate is never reached, so that only the counting is measured, and is one of the dearest to
count: its window has as many uses as are counted one by one.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial

from bench.bench import Bench
from bench.figures import Figure, pair
from bench.noop import BenchApp
from fencepost.core.bounds import RATE_COUNT_MAX
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.store.interface.queue import ClaimRequest

RATE = Rate(RATE_COUNT_MAX, 60.0)
CLAIM = 10
"""Jobs of one claim."""
RATED, FREE = "a rated type", "no rate"


def measure(bench: Bench, _: AbstractSet[str]) -> list[Figure]:
    """Return how many jobs of a rated type are claimed a second, beside those of another."""
    found = bench.in_turns(
        {FREE: partial(_claimed, bench, None), RATED: partial(_claimed, bench, RATE)}
    )
    both = pair(found[RATED], found[FREE])
    return [
        Figure(
            name="rate",
            title=f"claim {RATED}, {CLAIM} at a time",
            unit="jobs/s",
            value=both.value,
            beside=both.beside,
            beside_what="none",
            ratio=both.ratio,
            spread=both.spread,
        )
    ]


def _claimed(bench: Bench, rate: Rate | None) -> float:
    """Return the jobs that one claimer takes a second."""
    count = bench.sizes.jobs
    request = ClaimRequest(worker="claimer", limit=CLAIM)
    with bench.new_store() as url, BenchApp(url) as app:
        app.noop.submit_many(range(count))
        store = app.app.store
        store.run(store.settings.limit_types({app.noop.type: TypeLimits(rate=rate)}))

        def claim_all() -> None:
            left = count
            while left:
                jobs = store.run(store.queue.claim(request)).jobs
                assert jobs, f"{left:,} jobs are left, and nothing is given"
                left -= len(jobs)

        return count / bench.seconds(claim_all)
