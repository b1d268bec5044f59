"""Every bound of the HTTP API and of its client, by name; all others are in ``core/bounds.py``."""

from __future__ import annotations

from typing import Final

# The HTTP API. Sizes are in bytes, times in seconds.
JSON_DEPTH_MAX: Final = 100
"""Levels of nesting: deeper JSON overflows some reader's stack."""
JSON_VALUES_MAX: Final = 1_000_000
"""Commas and opening brackets of one body, about as many as its values: each value becomes an
object in memory, however small."""
HTTP_BODY_MAX: Final = 64_000
"""Of a request that carries no payload."""
HTTP_IDS_BODY_MAX: Final = 600_000
"""Of a request that may name HTTP_BATCH_MAX jobs."""
HTTP_BODY_ASIDE: Final = 128_000
"""A larger body is parsed and processed in a thread, beside the event loop."""
HTTP_BODIES_MAX: Final = 128_000_000
"""All bodies together that a server holds at once."""
HTTP_BODIES_LARGE_SHARE: Final = 0.75
"""The share for bodies over HTTP_BODY_MAX: the rest is for heartbeats and claims."""
HTTP_BODY_STEP: Final = 65_536
HTTP_BODY_STALL: Final = 2.0
"""What must arrive of a body within this time; else it may be cut to make room for others."""
HTTP_BATCH_BYTES_MAX: Final = 32_000_000
HTTP_BATCH_MAX: Final = 10_000
WORKER_LENGTH_MAX: Final = 200
HTTP_WORKERS_MAX: Final = 1_000
"""Workers that a server announces for their claims; with 64 kB of types each, at most."""
HTTP_BODY_TIMEOUT: Final = 30.0
HTTP_WAIT_MAX: Final = 60.0
"""The longest that a request waits for a job to end, or for one to claim."""
HTTP_WAIT_DEFAULT: Final = 30.0
HTTP_STREAMS_MAX: Final = 200
HTTP_STREAM_INTERVAL: Final = 0.2
"""The shortest time between two messages of a stream."""
QUEUES_INTERVAL: Final = 1.0
STREAM_SILENCE: Final = 15.0
"""A stream without messages sends a sign of life after this long."""
HTTP_RETRY_AFTER: Final = 1.0
HTTP_HEAD_MAX: Final = 16_384
"""A request's first line and headers."""
HTTP_HEAD_TIMEOUT: Final = 10.0
"""How long they may take to arrive, from the connection or from their first byte."""
HTTP_IDLE_TIMEOUT: Final = 75
"""How long a connection is kept for another request; longer than proxies keep theirs."""
HTTP_LINGER: Final = 2.0
"""How long the rest of a refused request is read, so that a reset does not overtake the answer."""
HTTP_WRITE_TIMEOUT: Final = 20.0
HTTP_WRITE_STEP: Final = 16_384
"""Bytes of an answer that a client must read within HTTP_WRITE_TIMEOUT."""
HTTP_CONNECTIONS_MAX: Final = 10_000
HTTP_DESCRIPTORS_KEPT: Final = 256
"""File descriptors that connections leave for the store and everything else."""
HTTP_BACKLOG: Final = 2_048
HTTP_SWEEP_INTERVAL: Final = 0.5
HTTP_FAREWELL: Final = 1.0
"""How long a stopping server waits for the request on a new connection, and for a client to read
the last answer."""
PREVIEW_MAX: Final = 120
COMPLETION_JOBS: Final = 500
"""So many jobs are looked at to complete what no counter knows, such as tags."""
"""Characters of a payload that a list of jobs shows."""

# The client of the HTTP API. Times are in seconds.
CLIENT_TIMEOUT_DEFAULT: Final = 30.0
"""How long a server may be silent before a request counts as lost."""
CLIENT_CONNECT_TIMEOUT: Final = 5.0
CLIENT_RETRIES_DEFAULT: Final = 4
CLIENT_RETRIES_MAX: Final = 100
CLIENT_BACKOFF_MIN: Final = 0.1
CLIENT_BACKOFF_MAX: Final = 5.0
CLIENT_RETRY_AFTER_MAX: Final = 60.0
"""The longest wait that a server can request; beyond it, the caller gets the error at once."""
CLIENT_KEEPALIVE: Final = 3.0
"""Servers close idle connections after five seconds or more: the client closes them first."""
CLIENT_CONNECTIONS_MAX: Final = 100
CLIENT_KEY_WINDOW: Final = 600.0
"""The shortest window of the key that the client gives a submission without one."""
