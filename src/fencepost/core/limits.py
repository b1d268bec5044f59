"""Every bound in Fencepost, by name.

A loop, queue, batch, string or wait without a bound is a defect; its bound belongs here.
"""

from __future__ import annotations

from typing import Final

# What a caller may submit.
TYPE_LENGTH_MAX: Final = 200
QUEUE_LENGTH_MAX: Final = 100
KEY_LENGTH_MAX: Final = 256
CORRELATION_ID_LENGTH_MAX: Final = 256
CONCURRENCY_KEY_LENGTH_MAX: Final = 256
RUNNING_PER_KEY_MAX: Final = 10_000
"""The highest limit that a concurrency key can have."""
TAG_COUNT_MAX: Final = 32
TAG_NAME_LENGTH_MAX: Final = 64
TAG_VALUE_LENGTH_MAX: Final = 256
PAYLOAD_BYTES_DEFAULT: Final = 1_000_000
PAYLOAD_BYTES_MAX: Final = 16_000_000
ATTEMPTS_MAX: Final = 10_000
BULK_MAX: Final = 100_000
"""Jobs in one call of submit_many; larger loads are split by the caller."""

DEPENDENCY_COUNT_MAX: Final = 1_000
"""Jobs that one job may wait for (S1-67)."""
DEPENDENCY_DEPTH_MAX: Final = 100
"""Jobs on the longest way through a graph (S1-66)."""
NODE_LENGTH_MAX: Final = 100

# What a handler may leave behind.
RESULT_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
MESSAGE_LENGTH_MAX: Final = 4_000
TRACEBACK_LENGTH_MAX: Final = 16_000
CODE_LENGTH_MAX: Final = 100
PROGRESS_MESSAGE_LENGTH_MAX: Final = 500
SHOWN_LENGTH_MAX: Final = 200
"""How much of a refused value its error message repeats."""

# Time, in seconds.
DURATION_MAX: Final = 3650 * 86_400.0
LEASE_TTL_MIN: Final = 1.0
LEASE_TTL_DEFAULT: Final = 300.0
"""When a claimer names none (C3): long enough for a worker that cannot heartbeat."""
WORKER_LEASE_TTL_DEFAULT: Final = 30.0
EXECUTION_TIMEOUT_DEFAULT: Final = 1_800.0
SUBMISSION_TIMEOUT_DEFAULT: Final = 30.0
LIFETIME_DEFAULT: Final = 7 * 86_400.0
KEY_WINDOW_DEFAULT: Final = 86_400.0
GRACE_DEFAULT: Final = 30.0
POLL_INTERVAL: Final = 1.0
"""How long an idle worker waits at the most, should every wake-up be lost."""
STORE_RETRY_DELAY_MAX: Final = 5.0
WORKER_SILENCE: Final = 60.0
"""A worker not heard from for this long is not listed."""
LEADER_TTL: Final = 5.0
PREFETCH_HORIZON: Final = 0.05
"""A worker claims at the most this much work ahead of its slots."""
FRESH_CLAIM: Final = 0.25
"""A prefetched job not confirmed for this long is confirmed before it starts (S3-10)."""

# Batches.
CLAIM_MAX: Final = 1_000
SETTLE_MAX: Final = 500
PREFETCH_MAX: Final = 1_000
UNSETTLED_MAX: Final = 1_000
"""Jobs that have ended but are not yet recorded; a worker with more of them claims none."""
RECOVER_BATCH: Final = 200
PROMOTE_BATCH: Final = 1_000
EXPIRE_BATCH: Final = 200
PRUNE_BATCH: Final = 1_000
PRUNE_SCAN: Final = 10_000
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 1_000
DUMP_MAX: Final = 10_000
DUMP_BATCH: Final = 1_000
DUMP_BYTES: Final = 16_000_000
"""Payloads, results and checkpoints of one page of a dump, unless a single job has more."""
GROUP_MAX: Final = 1_000
"""Operations that share one commit."""

# A worker.
CONCURRENCY_DEFAULT: Final = 20
CONCURRENCY_MAX: Final = 10_000
WEIGHT_MAX: Final = 100
WEIGHT_TOTAL_MAX: Final = 1_000
PROCESSES_MAX: Final = 256

# Retry maths.
EXPONENT_MAX: Final = ATTEMPTS_MAX
"""2.0 ** 1024 overflows a float, which has then long passed every cap; 1.001 ** 1024 has not."""
CUSTOM_DELAYS_MAX: Final = 100
"""How many delays of a custom backoff are worked out at submission; the last one repeats."""

# Interrupting handlers.
INTERRUPT_GRACE: Final = 5.0
"""How long an interrupted coroutine may tidy up before its slot is given up."""
CHILD_START_TIMEOUT: Final = 60.0
RECOVER_INTERVAL: Final = 1.0
PROMOTE_INTERVAL: Final = 1.0
EXPIRE_INTERVAL: Final = 5.0
PRUNE_INTERVAL: Final = 60.0
PRUNE_PAUSE: Final = 1.0
PRUNE_ROUNDS: Final = 20
"""Batches of one pruning pass; the rest waits for the next."""
ANNOUNCE_INTERVAL: Final = 10.0
LAG_INTERVAL: Final = 1.0
LAG_WARNING: Final = 0.5
HEARTBEAT_PAUSE_MAX: Final = 1.0
