"""What a job carries of its task's settings, so that any process can finish it by the same rules.

Jobs of one task share a policy; stores keep each distinct one once.
"""

from __future__ import annotations

import msgspec

from fencepost.core.bounds import EXECUTION_TIMEOUT_DEFAULT, LIFETIME_DEFAULT
from fencepost.core.job.retry import Backoff


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The retry rules and the times of a job."""

    max_attempts: int = 3
    backoff: Backoff = Backoff()
    on_timeout: bool = True
    on_system: bool = True
    timeout: float = EXECUTION_TIMEOUT_DEFAULT
    """The longest one attempt may run, in seconds."""
    lifetime: float = LIFETIME_DEFAULT
    """From submission (or a retry by hand) to the end, whatever happens between."""
    lease_ttl: float | None = None
    """Set when the task wants leases of its own length, whoever claims it."""
    max_running_per_key: int | None = None
    """How many jobs of its type and concurrency key may be under way; None without a key."""


DEFAULT_POLICY = Policy()

_decoder = msgspec.json.Decoder(Policy)


def encode_policy(policy: Policy) -> str:
    """Return *policy* as text; equal policies give equal text."""
    return msgspec.json.encode(policy, order="sorted").decode()


def decode_policy(text: str) -> Policy:
    """Return the policy that *text* holds, or raise ValueError if it is corrupt."""
    return _decoder.decode(text)
