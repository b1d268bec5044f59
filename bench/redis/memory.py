"""What a waiting job weighs in the server's memory, with a payload of 200 bytes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from bench.figures import Figure, Target
from bench.noop import BenchApp
from bench.redis.bench import BULK, RedisBench

PAYLOAD = 200
TARGET = Target("value", at_most=500)


def measure(bench: RedisBench, _: AbstractSet[str]) -> list[Figure]:
    """Return how much the server grows for each job."""
    count = bench.sizes.stored
    bench.tell(f"memory: storing {count:,} jobs")
    with bench.new_store() as url, BenchApp(url) as app:
        app.weighed.submit("")  # makes the lane
        before = bench.memory()
        # The arguments are encoded as ``[["…"],{}]``.
        text = "x" * (PAYLOAD - len('[[""],{}]'))
        for start in range(0, count, BULK):
            app.weighed.submit_many([text] * min(BULK, count - start))
        grown = bench.memory() - before
    return [
        Figure(
            name="memory",
            title=f"memory of a waiting job, payload of {PAYLOAD} bytes",
            unit="bytes",
            value=grown / count,
            target=TARGET,
            note=f"{count:,} jobs, by the server's used_memory",
        )
    ]
