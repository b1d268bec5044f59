"""How many acknowledged jobs a failover loses: the experiment behind the table in docs/redis.md.

    python -m tests.store.redis.losing 20

In each round, callers submit jobs one by one while the master is killed and its replica promoted.
The replica either follows as well as it can, or is cut off a moment before the master is killed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.redis import USUAL, RedisServer

from fencepost.core.job.job import NewJob
from fencepost.errors import StoreError
from fencepost.store.redis.store import RedisStore

CALLERS = 8
SECONDS = 0.6
CUT_OFF_SECONDS = 0.2
QUICK = {**USUAL, "repl-diskless-sync-delay": "0"}


@contextmanager
def submitting(url: str, durability: str, acknowledged: list[str]) -> Iterator[None]:
    """Submit jobs from several threads until the store fails."""
    store = RedisStore(url, durability=durability, patience=2.0)

    def submit() -> None:
        try:
            while True:
                (reply,) = store.run(store.queue.enqueue([NewJob(type="t")]))
                acknowledged.append(reply.job_id)
        except StoreError:
            return

    threads = [threading.Thread(target=submit) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()
    store.close()


def lose(durability: str, *, is_cut_off: bool) -> tuple[int, int]:
    """Fail over once; return how many jobs were acknowledged, and how many of them are gone."""
    acknowledged: list[str] = []
    with RedisServer(QUICK) as master, RedisServer(QUICK) as replica:
        replica.follow(master)
        with submitting(master.url, durability, acknowledged):
            time.sleep(SECONDS)
            if is_cut_off:
                replica.freeze()
                master.do("CLIENT", "KILL", "TYPE", "replica")
                time.sleep(CUT_OFF_SECONDS)
            master.crash()
        replica.thaw()
        replica.do("REPLICAOF", "NO", "ONE")
        store = RedisStore(replica.url)
        lost = 0
        for start in range(0, len(acknowledged), 500):
            found = store.run(store.reader.get(acknowledged[start : start + 500]))
            lost += sum(job is None for job in found)
        store.close()
    return len(acknowledged), lost


def main(rounds: int) -> None:
    for is_cut_off in (False, True):
        for durability in ("process", "replica"):
            results = [lose(durability, is_cut_off=is_cut_off) for _ in range(rounds)]
            total, gone = (sum(column) for column in zip(*results, strict=True))
            hit = sum(lost > 0 for _, lost in results)
            how = "cut off before" if is_cut_off else "following"
            print(  # noqa: T201 - this is what it is for
                f"{durability}, replica {how}: {gone} of {total} acknowledged jobs lost, "
                f"in {hit} of {rounds} failovers",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]))
