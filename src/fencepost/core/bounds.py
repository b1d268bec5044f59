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
RUNNING_MAX: Final = 1_000_000
"""The highest limit that a queue, or an app, can have."""
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
"""Pairs of a queue and a type that an app may have. A claim looks only at those it asks for, but
what lists names, and the leader's chores, look at all of them."""
LANE_IDLE: Final = 3_600.0
"""A pair in which there have been no jobs, not even ended ones, for this long is removed."""
LANE_SURE: Final = 600.0
"""So long does a caller's own transaction rely on a lane that was asked for before: well below
LANE_IDLE, since it fails if the lane is gone."""

DEPENDENCY_COUNT_MAX: Final = 1_000
"""Jobs that one job may wait for (S1-67)."""
DEPENDENCY_DEPTH_MAX: Final = 100
"""Jobs on the longest way through a graph (S1-66)."""
NODE_LENGTH_MAX: Final = 100
CANCEL_ROUNDS: Final = 10
"""Looks at a flow that is being cancelled: what runs may spawn more between two of them."""

# How often jobs of a type may start.
RATE_COUNT_MAX: Final = 1_000_000
RATE_WINDOW_MIN: Final = 0.001
RATE_WINDOW_MAX: Final = 86_400.0
RATE_MOMENTS_MAX: Final = 1_000
"""Instants that one window tells apart, so that to count what is left stays cheap."""

# What a handler may leave behind.
RESULT_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
MESSAGE_LENGTH_MAX: Final = 4_000
TRACEBACK_LENGTH_MAX: Final = 16_000
CODE_LENGTH_MAX: Final = 100
PROGRESS_MESSAGE_LENGTH_MAX: Final = 500
SHOWN_LENGTH_MAX: Final = 200
"""How much of a refused value its error message repeats."""

# Encryption.
KEY_ID_LENGTH_MAX: Final = 64
KEY_BYTES: Final = 32
KEY_RING_MAX: Final = 100
"""Keys in one ring; each stays for as long as there are jobs that were encrypted with it."""
PLAIN_DAYS_MAX: Final = 400
"""For how long content that is not encrypted can be accepted beside keys: longer than jobs are kept
unless told otherwise, shorter than for ever."""
REPLAY_BATCH: Final = 100
"""Dead letters whose payloads are read at once, to be encrypted for their fresh jobs."""

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
WORKER_TIMEOUT_GRACE: Final = 10.0
"""So much longer than its execution timeout does a worker hold a job: it interrupts the handler
itself, which takes INTERRUPT_GRACE at the most, and records that."""
POLL_INTERVAL: Final = 1.0
"""How long an idle worker waits at the most, should every wake-up be lost."""
STORE_RETRY_DELAY_MAX: Final = 5.0
WORKER_SILENCE: Final = 60.0
"""A worker not heard from for this long is not listed."""
LEADER_TTL: Final = 5.0
FAREWELL: Final = 2.0
"""How long whoever has stopped waits for a store that may hang, to say so."""
START_WITHIN: Final = 0.05
"""A handler that has not begun so long after the claim was answered does not begin: its job goes
back, for any worker that can start it. With the time that the claim itself takes, this keeps the
bound of 100 ms for pauses, cancellations, limits and more urgent jobs (C42)."""

GATHER: Final = 0.002
"""How long a worker with few free slots waits for more of them before it claims."""

CREATION_DISORDER: Final = 1.0
"""By so much at the most do a store's numbers and its jobs' times of creation differ in order; what
differs by more is written down."""

ENDED_OVERLAP: Final = 5.0
"""So long after the time of its end may a job be seen to have ended."""
ENDED_TOLD_MAX: Final = 100_000
"""Ends that a follower remembers to have told."""

# Locks, on PostgreSQL, in seconds.
LOCK_TIMEOUT: Final = 2.0
"""So long does an operation wait for a lock that another transaction holds; then it is refused as
unavailable, with nothing done."""
GROUP_LOCK_TIMEOUT: Final = 0.05
"""So long does an awaited operation while others wait for the same thread; what is held up for
longer goes on waiting apart from them, until LOCK_TIMEOUT."""
HELD_UP_ROUND: Final = 0.5
"""So long do the tries of all that wait apart take together,"""
HELD_UP_TRY: Final = 0.01
"""unless there are so many that each would have less than this."""
HELD_UP_PAUSE: Final = 0.02
"""And so long is the pause after all of them were tried."""
CHORE_LOCK_TIMEOUT: Final = 0.1
"""So long does a chore that a claim does on the side."""
CHORE_PAUSE: Final = 1.0
"""After a chore has failed, claims of this process leave it alone for so long; twice as long after
each further failure."""
CHORE_PAUSE_MAX: Final = 60.0

# Batches.
CLAIM_MAX: Final = 1_000
CLAIM_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
"""Payloads and checkpoints of one claim, unless a single job has more: a server has to build the
answer in memory, and PostgreSQL builds none of more than a gigabyte."""
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
"""Notes of callers' transactions that one claim looks at."""
LEFT_PAUSE: Final = 0.1
"""After so many seconds claims look again at what a chore left alone: somebody had it in hand."""
FOLLOW_BATCH: Final = 2_000
"""Jobs that waited for one that has ended, and are moved by one statement."""
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

# The file of a SQLite store.
LOG_PAGES_MAX: Final = 16_000
"""Pages of the write-ahead log (64 MB) past which a writer waits for readers to let go of it."""
LOG_WAIT: Final = 0.5
"""For how many seconds, once for each 4,000 further pages."""
REPAIR_ROUNDS: Final = 3
"""Tries to bring everything to the disk anew, before a write is refused."""

# Statistics. Windows are in seconds.
STATS_WINDOW_MIN: Final = 1.0
STATS_WINDOW_DEFAULT: Final = 300.0
STATS_WINDOW_MAX: Final = 86_400.0
STATS_NAMES_MAX: Final = 1_000
"""Queues, and types, that one answer lists; the smallest of more are added up, as ``other``."""
STATS_SAMPLE_MAX: Final = 2_000
"""Jobs that ended from which rates and times are worked out: the newest of the window."""
SCALE_TARGET_DEFAULT: Final = 60.0
"""Seconds within which a backlog is to be gone."""
SCALE_RUN_DEFAULT: Final = 1.0
"""How long a job is taken to run while none has completed."""
SCALE_SLOTS_MAX: Final = 100_000

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

# Payloads that this version of the code cannot read. Times are in seconds.
UNREADABLE_MAX: Final = 3_600.0
"""How long such a job is given back for others, from the first time on; then it has failed."""
UNREADABLE_DELAY_MIN: Final = 5.0
UNREADABLE_DELAY_MAX: Final = 300.0
"""How long it waits before it is claimed again: twice as long each time, 17 times in an hour."""
UNREADABLE_SHOWN: Final = 200
"""Jobs that wait for another attempt at which ``doctor`` looks for such ones."""

# Interrupting handlers.
DELIVERY_SLOTS: Final = 20
"""Webhooks that a server sends at once."""
DELIVERY_PAUSE: Final = 5.0
"""Before a server begins again to deliver webhooks, should that have failed as a whole."""
INTERRUPT_GRACE: Final = 5.0
"""How long an interrupted handler may tidy up before its slot is given up."""
THROW_AGAIN: Final = 0.01
"""How soon a thread is looked at again into which nothing can be thrown just now."""
THREADS_FAREWELL: Final = 1.0
"""How long a worker that ends waits for threads that it has stopped, ..."""
HURRIED_FAREWELL: Final = 0.1
"""... and for whatever it has interrupted if it was told to hurry."""
FRAMES_MAX: Final = 200
"""Callers of a function that are looked at."""
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

# Webhooks.
CALLBACK_URL_LENGTH_MAX: Final = 2_048
CALLBACK_PORT_FREE: Final = 1_024
"""Below it, only the two ports of the web: what listens on the others is no receiver."""
CALLBACK_ADDRESSES_MAX: Final = 4
"""Addresses of one receiver that a delivery tries."""
WEBHOOK_RESULT_MAX: Final = 64_000
"""Bytes of a result that a webhook carries; a receiver fetches a larger one itself."""
WEBHOOK_REPLY_MAX: Final = 64_000
"""Bytes of a receiver's answer that are read, and dropped."""
WEBHOOK_REPLY_TIMEOUT: Final = 1.0
"""How long the rest of an answer is read whose status has come."""
WEBHOOK_TIMEOUT_DEFAULT: Final = 10.0
WEBHOOK_TIMEOUT_MIN: Final = 0.1
WEBHOOK_TIMEOUT_MAX: Final = 25.0
"""Within the execution timeout of a delivery: it ends by itself before its thread is stopped."""
WEBHOOK_EXECUTION_TIMEOUT: Final = 30.0
WEBHOOK_LIFETIME: Final = 3 * 86_400.0
WEBHOOK_ATTEMPTS: Final = 12
WEBHOOK_RETRY_DELAY_MIN: Final = 5.0
WEBHOOK_RETRY_DELAY_MAX: Final = 3_600.0
WEBHOOK_RETRY_AFTER_MAX: Final = 86_400.0
"""The longest wait that a receiver can ask for."""
WEBHOOK_SECRETS_MAX: Final = 10
WEBHOOK_SECRET_BYTES_MIN: Final = 24
WEBHOOK_SECRET_BYTES_MAX: Final = 64
WEBHOOK_NETWORKS_MAX: Final = 100
WEBHOOK_HEADER_LENGTH_MAX: Final = 4_096
"""Of one header that a receiver verifies."""
WEBHOOK_TOLERANCE: Final = 300.0
"""How far a webhook's time may lie from the receiver's, in seconds."""

# Crons. Times are in seconds.
CRONS_MAX: Final = 1_000
"""That one app may declare."""
CRON_NAME_LENGTH_MAX: Final = TYPE_LENGTH_MAX
"""With the tick behind it, a name still fits into a key."""
CRON_EXPRESSION_LENGTH_MAX: Final = 256
CRON_ZONE_LENGTH_MAX: Final = 100
CRON_GRACE: Final = 60.0
"""A tick that is later than this was missed. Ticks are a minute apart, so one at most is not."""
CATCH_UP_DEFAULT: Final = 10
CATCH_UP_MAX: Final = 1_000
CRON_NEXT_DEFAULT: Final = 5
CRON_NEXT_MAX: Final = 1_000
"""Ticks to come, in one answer."""
CRON_FIRE_MAX: Final = CATCH_UP_MAX
"""Jobs of one firing, unless a single cron has more of them."""
CRON_LOOK_INTERVAL: Final = 5.0
"""How late a worker may see what somebody else has changed of a cron."""
CRON_JITTER: Final = 0.03
"""By so much at the most do workers come one after another to the same tick."""
CRON_DECLARE_INTERVAL: Final = 60.0
"""How often it is written down that a cron is known to a running worker."""
CRON_SILENCE: Final = 180.0
"""A cron not declared for this long is known to nobody."""

# The HTTP API. Sizes are in bytes, times in seconds.
JSON_DEPTH_MAX: Final = 100
"""Levels of nesting: deeper JSON overflows some reader's stack."""
JSON_VALUES_MAX: Final = 1_000_000
"""Commas and opening brackets of one body, which are about as many as its values: each of these
becomes an object in memory, however small it was."""
HTTP_BODY_MAX: Final = 64_000
"""Of a request that carries no payload."""
HTTP_BODY_ASIDE: Final = 128_000
"""A larger body is read beside the event loop, and so is what is worked out from it."""
HTTP_BODIES_MAX: Final = 128_000_000
"""Of all bodies together that a server holds at once."""
HTTP_BODIES_LARGE_SHARE: Final = 0.75
"""How much of that bodies over HTTP_BODY_MAX may take: heartbeats and claims have the rest."""
HTTP_BODY_STEP: Final = 65_536
HTTP_BODY_STALL: Final = 2.0
"""What must arrive of a body, and within which time, lest it be cut when others need its room."""
HTTP_BATCH_BYTES_MAX: Final = 32_000_000
HTTP_BATCH_MAX: Final = 10_000
"""Jobs, or leases, of one request."""
WORKER_LENGTH_MAX: Final = 200
"""Characters of the name that a worker gives itself."""
HTTP_WORKERS_MAX: Final = 10_000
"""Workers that a server remembers to have written down."""
HTTP_BODY_TIMEOUT: Final = 30.0
"""How long a request's body may take to arrive."""
HTTP_WAIT_MAX: Final = 60.0
"""The longest that a request waits for a job to end, or for one to claim."""
HTTP_WAIT_DEFAULT: Final = 30.0
HTTP_STREAMS_MAX: Final = 200
"""Streams that one server keeps up."""
HTTP_STREAM_INTERVAL: Final = 0.2
"""How often a stream tells of what is new, at the most."""
QUEUES_INTERVAL: Final = 1.0
"""How often a server reads the queues for its streams."""
STREAM_SILENCE: Final = 15.0
"""After so long a stream that has nothing to tell says so."""
HTTP_RETRY_AFTER: Final = 1.0
"""When to come again, if the store is away."""
HTTP_HEAD_MAX: Final = 16_384
"""Of a request's first line and headers."""
HTTP_HEAD_TIMEOUT: Final = 10.0
"""How long these may take to arrive, from the connection or from their own first byte."""
HTTP_IDLE_TIMEOUT: Final = 75
"""How long a connection is kept for another request; longer than proxies keep theirs."""
HTTP_LINGER: Final = 2.0
"""How long the rest of a refused request is read and dropped, lest a reset overtake the answer."""
HTTP_WRITE_TIMEOUT: Final = 20.0
HTTP_WRITE_STEP: Final = 16_384
"""What a client must take of an answer within HTTP_WRITE_TIMEOUT, unless there is less of it."""
HTTP_CONNECTIONS_MAX: Final = 10_000
HTTP_DESCRIPTORS_KEPT: Final = 256
"""File descriptors that connections leave to the store and to whatever else opens files."""
HTTP_BACKLOG: Final = 2_048
HTTP_SWEEP_INTERVAL: Final = 0.5
HTTP_FAREWELL: Final = 1.0
"""How long a server that stops waits for the request of one who has just connected, and for one
who does not take the last answer."""

# The client of the HTTP API. Times are in seconds.
CLIENT_TIMEOUT_DEFAULT: Final = 30.0
"""How long a server may say nothing before a request counts as lost."""
CLIENT_CONNECT_TIMEOUT: Final = 5.0
CLIENT_RETRIES_DEFAULT: Final = 4
CLIENT_RETRIES_MAX: Final = 100
CLIENT_BACKOFF_MIN: Final = 0.1
CLIENT_BACKOFF_MAX: Final = 5.0
CLIENT_RETRY_AFTER_MAX: Final = 60.0
"""The longest wait that a server can ask for; beyond it, the caller is told at once."""
CLIENT_KEEPALIVE: Final = 3.0
"""Servers hang up on idle connections after five seconds or more: we let go of them before."""
CLIENT_CONNECTIONS_MAX: Final = 100
CLIENT_KEY_WINDOW: Final = 600.0
"""How long the key of a submission that was given none is held at the least."""

# Tokens and the audit log. Times are in seconds.
TOKEN_ID_BYTES: Final = 6
TOKEN_SECRET_BYTES: Final = 24
"""192 bits, so that a plain hash of them gives nothing away."""
TOKEN_EXPIRES_MIN: Final = 1.0
TOKEN_NAME_LENGTH_MAX: Final = 100
TOKEN_QUEUES_MAX: Final = 100
TOKEN_RATE_MIN: Final = 0.01
TOKEN_RATE_MAX: Final = 1_000_000.0
TOKENS_MAX: Final = 1_000
"""Servers read all of them every few seconds; those that ended long ago make room."""
TOKEN_KEPT: Final = 90 * 86_400.0
"""How long a token is listed that was revoked or has expired."""
TOKEN_REVOKED_SECONDS: Final = 5.0
"""Within this a token that was revoked is refused everywhere, and what it has open is ended."""
TOKEN_CACHE_SECONDS: Final = 2.0
"""How long a server goes by the tokens that it has read."""
TOKEN_RECHECK_SECONDS: Final = 1.0
"""How often it looks at the token of a request that waits, by tokens read no longer ago. With what
it may have gone by at first, and a poll until the request notices, four of the five seconds."""
TOKEN_LOOK_SECONDS: Final = 1.0
"""How often a server looks again for a token that it does not know, or after a failed look."""
TOKEN_STALE_SECONDS: Final = 60.0
"""How long it goes by them while the store is away."""
AUDIT_KEPT: Final = 90 * 86_400.0
AUDIT_KEPT_MIN: Final = 7 * 86_400.0
"""On PostgreSQL nobody deletes what is younger: whoever has the role of workers hides no tracks."""
AUDIT_NAME_LENGTH_MAX: Final = 100
AUDIT_TARGET_LENGTH_MAX: Final = 300
AUDIT_DETAIL_BYTES_MAX: Final = 8_000
AUDIT_CONDITION_LENGTH_MAX: Final = 20
"""Characters of each word of a bulk action's conditions, should all of them be too long."""
AUDIT_REFUSED_MAX: Final = 20
"""Refused tries of one token that are recorded in a window; the rest are counted,"""
AUDIT_REFUSED_WINDOW: Final = 60.0
"""and one record says how many they were when these seconds are over."""
REQUEST_ID_LENGTH_MAX: Final = 128
# Metrics. Times are in seconds.
METRIC_LABELS_MAX: Final = 100
"""Types, or pairs of a type and a queue, that have a metric of their own; the rest share one."""
METRICS_INTERVAL: Final = 1.0
"""However often metrics are asked for, the store is asked once in this time."""
METRICS_TIMEOUT: Final = 2.0
"""How long the store's answer is waited for; without it, the metrics come without its gauges."""

# Health. Times are in seconds.
LIVE_MAX: Final = 60.0
"""An event loop that has not turned for so long is stuck: its leases are kept, its jobs are not."""
READY_MAX: Final = 10.0
"""A worker asks its store for something every few seconds; past this, it has no store."""
READY_TIMEOUT: Final = 2.0
"""How long a readiness probe waits for the store."""
READY_INTERVAL: Final = 1.0
"""For how long an answer to a probe serves other probes."""
MONITOR_CONNECTIONS_MAX: Final = 16
"""Probes and monitors that a worker's own server answers at once."""
MONITOR_TIMEOUT: Final = 5.0
"""For how long one of them may keep a connection without a word."""
