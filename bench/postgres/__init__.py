"""The measurements of the PostgreSQL store, beside what the same server does without it."""

NAMES = (
    "submit",
    "submit-async",
    "submit-many",
    "drain",
    "drain-2",
    "backlog",
    "wal",
    "cpu",
    "slots",
    "snapshot",
    "pickup",
    "pickup-busy",
    "chains",
    "fan",
    "diamonds",
    "chain",
    "limit",
    "rate",
    "keyed",
    "footprint",
)
"""What ``--only`` takes; here, because the modules that measure need the driver."""
