"""The measurements of the Redis store, beside what the same server does without it."""

NAMES = (
    "submit",
    "submit-async",
    "submit-many",
    "drain",
    "drain-2",
    "backlog",
    "slots",
    "pickup",
    "pickup-busy",
    "memory",
    "chains",
    "fan",
    "diamonds",
    "chain",
    "rate",
    "keyed",
)
"""What ``--only`` takes; here, because the modules that measure need the driver."""
