"""Every bound in Fencepost, by name.

A loop, queue, batch, string or wait without a bound is a defect; its bound belongs here. Those of
tokens and the audit log are in ``core/access/bounds.py``, those of the HTTP API and of its client
in ``wire/bounds.py``.
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
RUNNING_MAX: Final = 1_000_000
TAG_COUNT_MAX: Final = 32
TAG_NAME_LENGTH_MAX: Final = 64
TAG_VALUE_LENGTH_MAX: Final = 256
EVENT_NAME_LENGTH_MAX: Final = 200
"""Not above TAG_VALUE_LENGTH_MAX: the jobs of an event carry its name in a tag."""
PAYLOAD_BYTES_DEFAULT: Final = 1_000_000
PAYLOAD_BYTES_MAX: Final = 16_000_000
ATTEMPTS_MAX: Final = 10_000
BULK_MAX: Final = 100_000
"""Jobs in one call of submit_many; larger loads are split by the caller."""
LANES_MAX: Final = 10_000
"""Pairs of a queue and a type in an app. A claim reads only those it asks for; lists and the
leader's chores read all of them."""
LANE_IDLE: Final = 3_600.0
"""A pair that has had no jobs, not even ended ones, for this long is removed."""
LANE_SURE: Final = 600.0
"""How long a caller's own transaction trusts a lane that was read before: well below LANE_IDLE,
because the transaction fails if the lane is gone."""
DEPENDENCY_COUNT_MAX: Final = 1_000
"""Jobs that one job may wait for (S1-67)."""
DEPENDENCY_DEPTH_MAX: Final = 100
"""Jobs on the longest path through a graph (S1-66)."""
NODE_LENGTH_MAX: Final = 100
CANCEL_ROUNDS: Final = 10
"""Passes over a flow that is being cancelled: running jobs may spawn more in between."""

# How often jobs of a type may start.
RATE_COUNT_MAX: Final = 1_000_000
RATE_WINDOW_MIN: Final = 0.001
RATE_WINDOW_MAX: Final = 86_400.0
RATE_MOMENTS_MAX: Final = 1_000
"""Distinct instants in one window, so that counting what is left stays cheap."""

# What a handler may store.
RESULT_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
MESSAGE_LENGTH_MAX: Final = 4_000
TRACEBACK_LENGTH_MAX: Final = 16_000
CODE_LENGTH_MAX: Final = 100
PROGRESS_MESSAGE_LENGTH_MAX: Final = 500
SHOWN_LENGTH_MAX: Final = 200
"""Characters of a refused value in its error message."""

# Encryption.
KEY_ID_LENGTH_MAX: Final = 64
KEY_BYTES: Final = 32
KEY_RING_MAX: Final = 100
"""Keys in one ring; each is needed as long as there are jobs encrypted with it."""
PLAIN_DAYS_MAX: Final = 400
"""How long unencrypted content can be accepted beside keys: longer than the default retention."""
REPLAY_BATCH: Final = 100
"""Dead letters whose payloads are read at once and encrypted again."""

# Time, in seconds.
DURATION_MAX: Final = 3650 * 86_400.0
LEASE_TTL_MIN: Final = 1.0
LEASE_TTL_DEFAULT: Final = 300.0
"""If a claim names none (C3): long enough for a worker that cannot heartbeat."""
WORKER_LEASE_TTL_DEFAULT: Final = 30.0
EXECUTION_TIMEOUT_DEFAULT: Final = 1_800.0
SUBMISSION_TIMEOUT_DEFAULT: Final = 30.0
LIFETIME_DEFAULT: Final = 7 * 86_400.0
KEY_WINDOW_DEFAULT: Final = 86_400.0
GRACE_DEFAULT: Final = 30.0
WORKER_TIMEOUT_GRACE: Final = 10.0
"""A worker's lease may last this much longer than the execution timeout: the worker interrupts the
handler, which takes at most INTERRUPT_GRACE, and records that."""
POLL_INTERVAL: Final = 1.0
"""The longest wait of an idle worker, should every notification be lost."""
ORPHANS_INTERVAL: Final = 1.0
"""Seconds between two looks for workers of this machine that have died."""
STORE_RETRY_DELAY_MAX: Final = 5.0
WORKER_SILENCE: Final = 60.0
"""A worker that has not announced itself for this long is not listed."""
WORKER_GONE: Final = 3_600.0
WORKERS_GONE_MAX: Final = 100
APP_VERSION_LENGTH_MAX: Final = 100
LEADER_TTL: Final = 5.0
FAREWELL: Final = 2.0
"""How long a stopping worker waits for a store that may hang, to sign off."""
START_WITHIN: Final = 0.05
"""A handler that has not begun this long after the claim does not begin: its job is released.
With the time of the claim itself, this keeps the bound of 100 ms for pauses, cancellations, limits
and more urgent jobs (C42)."""
LOOK_INTERVAL: Final = 0.01
"""Claims of a worker that follow each other faster need not all look for pauses, limits, new types
of jobs and jobs that are due. It is a part of the same bound."""
BATCH_MAX: Final = 1_000
BATCH_WAIT_MAX: Final = START_WITHIN
BATCH_MARGIN: Final = 0.01
"""A batch begins so long before its first job would be late, however long it may wait."""
GATHER: Final = 0.002
"""How long a worker with few free slots waits for more of them before it claims."""
CREATION_DISORDER: Final = 1.0
"""How far the order of a store's numbers and of its jobs' creation times may differ; jobs that
differ by more are recorded."""
ENDED_OVERLAP: Final = 5.0
"""How late the end of a job may become visible to readers."""
ENDED_REMEMBERED_MAX: Final = 100_000
"""Ended jobs that a follower remembers, to report each once."""

# Locks, on PostgreSQL, in seconds.
LOCK_TIMEOUT: Final = 2.0
"""How long an operation waits for a lock; then it fails as unavailable, with nothing done."""
GROUP_LOCK_TIMEOUT: Final = 0.05
"""The same for operations that share a thread with others; one that is blocked for longer goes on
waiting apart from them, until LOCK_TIMEOUT."""
HELD_UP_ROUND: Final = 0.5
"""How long one round of tries takes for all that wait apart, ..."""
HELD_UP_TRY: Final = 0.01
"""... unless each would then have less than this."""
HELD_UP_PAUSE: Final = 0.02
CHORE_LOCK_TIMEOUT: Final = 0.1
"""The same for a chore inside a claim."""
CHORE_PAUSE: Final = 1.0
"""After a chore failed, claims skip it for this long, and twice as long each time."""
CHORE_PAUSE_MAX: Final = 60.0

# Batches.
CLAIM_MAX: Final = 1_000
CLAIM_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
"""Payloads and checkpoints of one claim, unless a single job has more: PostgreSQL builds the answer
in memory, at most a gigabyte."""
SETTLE_MAX: Final = 500
SETTLE_BYTES_MAX: Final = RESULT_BYTES_MAX
"""Results of one group of settlements, unless a single one is larger."""
LOAD_MAX: Final = CLAIM_MAX
"""Jobs whose dependencies' results are loaded at once; each may have a thousand of them."""
UNSETTLED_MAX: Final = 1_000
"""Jobs that have ended but are not yet recorded; a worker with more of them claims none."""
RECOVER_BATCH: Final = 200
PROMOTE_BATCH: Final = 1_000
EXPIRE_BATCH: Final = 200
RESOLVE_BATCH: Final = 500
"""Notes of callers' transactions that one claim reads."""
LEFT_PAUSE: Final = 0.1
"""After this long claims retry what a chore skipped because it was locked."""
FOLLOW_BATCH: Final = 2_000
"""Dependents of an ended job that one statement moves."""
PRUNE_BATCH: Final = 1_000
PRUNE_SCAN: Final = 10_000
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 1_000
LOOK_MAX: Final = 10_000
"""Jobs that a search reads for conditions without an index, and that a bounded count counts."""
LOOK_PAGE: Final = 200
"""Those of them that are in memory at once, with their payloads."""
LOOK_FIRST: Final = 20
"""The first of them, until it is known how large they are."""
LOOK_BYTES: Final = 4_000_000
"""Payloads, results and checkpoints that are in memory at once, unless they become larger."""
LOOK_ALL_MAX: Final = 100_000
"""Jobs that are read before all that meet such conditions are changed."""
WHERE_MAX: Final = 10
WHERE_LENGTH_MAX: Final = 1_000
ERROR_TEXT_LENGTH_MAX: Final = 200
FLOW_JOBS_MAX: Final = 5_000
"""Jobs that are counted of one flow in a list, and after which a page of flows ends."""
DUMP_MAX: Final = 10_000
DUMP_BATCH: Final = 1_000
DUMP_BYTES: Final = 16_000_000
"""Payloads, results and checkpoints of one page of a dump, unless a single job has more."""
GROUP_MAX: Final = 1_000
"""Operations that share one commit."""

# The file of a SQLite store.
LOG_PAGES_MAX: Final = 16_000
"""Pages of the write-ahead log (64 MB) beyond which a writer waits for readers to release it."""
LOG_WAIT: Final = 0.5
"""For how many seconds, once for each 4,000 further pages."""
REPAIR_ROUNDS: Final = 3
"""Tries to write everything to the disk again before a write is refused."""

# Statistics. Windows are in seconds.
STATS_WINDOW_MIN: Final = 1.0
STATS_WINDOW_DEFAULT: Final = 300.0
STATS_WINDOW_MAX: Final = 86_400.0
STATS_NAMES_MAX: Final = 1_000
"""Queues, or types, in one answer; the smallest of more are added up as ``other``."""
STATS_SAMPLE_MAX: Final = 2_000
"""Ended jobs from which rates and times are computed: the newest of the window."""
SCALE_TARGET_DEFAULT: Final = 60.0
SCALE_RUN_DEFAULT: Final = 1.0
"""The assumed run time of a job while none has completed."""
SCALE_SLOTS_MAX: Final = 100_000

# A worker.
CONCURRENCY_DEFAULT: Final = 20
CONCURRENCY_MAX: Final = 10_000
WEIGHT_MAX: Final = 100
WEIGHT_TOTAL_MAX: Final = 1_000
PROCESSES_MAX: Final = 256
MAX_JOBS_MAX: Final = 1_000_000_000
MAX_RSS_MIN: Final = 10 * 10**6
MAX_RSS_MAX: Final = 10**13
RETIREMENT_JITTER: Final = 0.1
"""A process retires up to this share of its limit earlier, so that not all do at once."""
RSS_INTERVAL: Final = 1.0
"""Seconds between two looks at how much memory the process has."""
RETIRED_PATIENCE: Final = 10.0
"""Seconds for a process to end by itself once its last job has, before it is replaced anyway."""

# Retries.
EXPONENT_MAX: Final = ATTEMPTS_MAX
"""2.0 ** 1024 overflows a float, but is far beyond every cap; 1.001 ** 1024 is not."""
CUSTOM_DELAYS_MAX: Final = 100
"""Delays of a custom backoff that are computed at submission; the last one repeats."""

# Payloads that this version of the code cannot read. Times are in seconds.
UNREADABLE_MAX: Final = 3_600.0
"""How long such a job is released for other workers, from the first time on; then it fails."""
UNREADABLE_DELAY_MIN: Final = 5.0
UNREADABLE_DELAY_MAX: Final = 300.0
"""How long it waits before the next claim: twice as long each time, 17 times in an hour."""
UNREADABLE_SHOWN: Final = 200
"""Retrying jobs among which ``doctor`` looks for such jobs."""

# Interrupting handlers, and the intervals of services.
INTERRUPT_GRACE: Final = 5.0
"""How long an interrupted handler may clean up before its slot is given up."""
EMBEDDED_PAUSE_MIN: Final = 1.0
"""Seconds before a worker beside a server is started again after a failure, doubled each time."""
EMBEDDED_PAUSE_MAX: Final = 30.0
"""The longest such pause; a worker that has run for longer begins with the shortest again."""
THROW_AGAIN: Final = 0.01
"""The pause before the next try to raise in a thread that cannot be interrupted just now."""
THREADS_FAREWELL: Final = 1.0
"""How long a stopping worker waits for threads that it has stopped, ..."""
HURRIED_FAREWELL: Final = 0.1
"""... and for everything that it has interrupted, after a second signal."""
FRAMES_MAX: Final = 200
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

# Webhooks.
DELIVERY_SLOTS: Final = 20
"""Webhooks that a server sends at once."""
DELIVERY_PAUSE: Final = 5.0
"""Before a server delivers webhooks again, after delivery failed as a whole."""
CALLBACK_URL_LENGTH_MAX: Final = 2_048
CALLBACK_PORT_FREE: Final = 1_024
"""Below it only ports 80 and 443 are allowed: other services listen there."""
CALLBACK_ADDRESSES_MAX: Final = 4
"""Addresses of one receiver that a delivery tries."""
WEBHOOK_RESULT_MAX: Final = 64_000
"""Bytes of a result in a webhook; a receiver fetches a larger one itself."""
WEBHOOK_REPLY_MAX: Final = 64_000
"""Bytes of a receiver's answer that are read and dropped."""
WEBHOOK_REPLY_TIMEOUT: Final = 1.0
"""How long the rest of an answer is read after its status."""
WEBHOOK_TIMEOUT_DEFAULT: Final = 10.0
WEBHOOK_TIMEOUT_MIN: Final = 0.1
WEBHOOK_TIMEOUT_MAX: Final = 25.0
"""Below the execution timeout of a delivery: it ends before its thread is stopped."""
WEBHOOK_EXECUTION_TIMEOUT: Final = 30.0
WEBHOOK_LIFETIME: Final = 3 * 86_400.0
WEBHOOK_ATTEMPTS: Final = 12
WEBHOOK_RETRY_DELAY_MIN: Final = 5.0
WEBHOOK_RETRY_DELAY_MAX: Final = 3_600.0
WEBHOOK_RETRY_AFTER_MAX: Final = 86_400.0
WEBHOOK_SECRETS_MAX: Final = 10
WEBHOOK_SECRET_BYTES_MIN: Final = 24
WEBHOOK_SECRET_BYTES_MAX: Final = 64
WEBHOOK_NETWORKS_MAX: Final = 100
WEBHOOK_HEADER_LENGTH_MAX: Final = 4_096
WEBHOOK_TOLERANCE: Final = 300.0
"""How far a webhook's time may differ from the receiver's, in seconds."""

# Crons. Times are in seconds.
CRONS_MAX: Final = 1_000
CRON_NAME_LENGTH_MAX: Final = TYPE_LENGTH_MAX
"""With the tick appended, a name still fits into a key."""
CRON_EXPRESSION_LENGTH_MAX: Final = 256
CRON_ZONE_LENGTH_MAX: Final = 100
CRON_GRACE: Final = 60.0
"""A later tick was missed. Ticks are a minute apart, so at most one is in time."""
CATCH_UP_DEFAULT: Final = 10
CATCH_UP_MAX: Final = 1_000
CRON_NEXT_DEFAULT: Final = 5
CRON_NEXT_MAX: Final = 1_000
CRON_RUNS_DEFAULT: Final = 12
CRON_RUNS_MAX: Final = 100
CRON_FIRE_MAX: Final = CATCH_UP_MAX
"""Jobs of one firing, unless a single cron has more of them."""
CRON_LOOK_INTERVAL: Final = 5.0
CRON_JITTER: Final = 0.03
"""Workers spread over this time to fire the same tick."""
CRON_DECLARE_INTERVAL: Final = 60.0
"""How often a worker records that it knows a cron."""
CRON_SILENCE: Final = 180.0
"""No worker knows a cron that was not declared for this long."""

# Replays of many dead letters. Times are in seconds.
REPLAYS_MAX: Final = 10
"""Replays that are under way at once, running or held."""
REPLAYS_KEPT_MAX: Final = 50
"""With those that are over, of which the oldest make room."""
REPLAY_RATE_MIN: Final = 0.01
REPLAY_RATE_MAX: Final = 1_000.0
"""Dead letters a second."""
REPLAY_RATE_DEFAULT: Final = 10.0
REPLAY_BURST: Final = 2.0
"""For how long a rate that was not used is not lost: leaders may be slow for a moment."""
REPLAY_OPEN_MAX: Final = 1_000
"""Jobs of one replay that have not ended yet; it waits for them before it makes more."""
REPLAY_INTERVAL: Final = 1.0
REPLAY_ROUNDS: Final = 10
"""Batches of one replay in one pass of the leader."""
REPLAY_PAGES: Final = 5
"""Pages of dead letters that are looked through for one batch."""
STOP_AFTER_DEFAULT: Final = 10
"""Jobs that have to end before a share of failures can stop a replay."""

# What needs attention. Times are in seconds.
GROUP_HOURS: Final = 24
GROUP_SAMPLE: Final = 5
LETTERS_GROUPED_MAX: Final = 10_000
"""Dead letters that are read to be grouped: the newest."""
LETTERS_AGE: Final = 5.0
"""How long a server groups those that it has read."""
RISING_FACTOR: Final = 5.0
RISING_MIN: Final = 5
"""Fewer dead letters than this in an hour are not said to rise."""
WAIT_MIN: Final = 1.0
"""Jobs that wait for less than this are not said to wait for long."""
WAIT_POINTS_MIN: Final = 3
"""What is usual is not known from fewer points than this."""
WORKER_QUIET: Final = 25.0
"""A worker that missed two announcements in a row is silent."""
PAUSED_LONG: Final = 600.0
ACTIONS_LOOKED_AT: Final = 200
"""Of the audit log, to find who paused what."""

# Refused writes.
REFUSALS_OF_JOB_MAX: Final = 10
REFUSALS_MAX: Final = 10_000
REFUSALS_AT_ONCE: Final = 20
"""Of one operation, that are recorded."""
REFUSALS_RATE: Final = 5.0
"""Records a second of one process; the others are only counted and logged."""

# Series. Times are in seconds.
SERIES_LOOK: Final = 2.0
"""How often the leader looks whether a sample is due."""
SERIES_LANES_MAX: Final = 200
"""Pairs of queue and type in a sample: at about 80 bytes each, a week takes 33 MB at most."""
SERIES_SAMPLE_MAX: Final = 2_000
"""Ended jobs of which a sample takes the times: the newest."""
SERIES_POINTS: Final = 120
SERIES_LINES_MAX: Final = 50

# Metrics. Times are in seconds.
METRIC_LABELS_MAX: Final = 100
"""Types, or pairs of a type and a queue, with their own series; the rest share one."""
METRICS_INTERVAL: Final = 1.0
"""Metrics query the store at most once in this time."""
METRICS_TIMEOUT: Final = 2.0
"""How long metrics wait for the store; without an answer, its gauges are left out."""

# Health. Times are in seconds.
LIVE_MAX: Final = 60.0
"""An event loop that has not turned for this long is stuck: its jobs do not proceed."""
READY_MAX: Final = 10.0
"""A worker queries its store every few seconds; after this long it has none."""
READY_TIMEOUT: Final = 2.0
FINDINGS_AGE: Final = 60.0
"""How long a server shows what the doctor found before it looks again."""
DOCTOR_AGE: Final = 5.0
"""The same, for those who ask for the findings themselves."""
READY_INTERVAL: Final = 1.0
"""How long an answer to a probe is reused for other probes."""
MONITOR_CONNECTIONS_MAX: Final = 16
MONITOR_TIMEOUT: Final = 5.0
