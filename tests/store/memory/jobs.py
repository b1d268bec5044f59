"""Jobs of a memory store, submitted and claimed in one word."""

from __future__ import annotations

from typing import Any

from fencepost.core.job.job import NewJob
from fencepost.store.interface.queue import Claim, ClaimRequest, Enqueued
from fencepost.store.memory.store import MemoryStore


def submit(store: MemoryStore, *jobs: NewJob) -> list[str]:
    replies = store.run(store.queue.enqueue(jobs))
    return [reply.job_id for reply in replies if isinstance(reply, Enqueued)]


def claim(store: MemoryStore, limit: int = 10, **fields: Any) -> Claim:
    return store.run(store.queue.claim(ClaimRequest(worker="w", limit=limit, **fields)))
