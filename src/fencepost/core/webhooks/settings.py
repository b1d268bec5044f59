"""``Webhooks``: with which secrets webhooks are signed, and where they may go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fencepost.core.bounds import (
    WEBHOOK_TIMEOUT_DEFAULT,
    WEBHOOK_TIMEOUT_MAX,
    WEBHOOK_TIMEOUT_MIN,
)
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.webhooks.addresses import Network, parse_networks
from fencepost.core.webhooks.callback import Callback, check_callback_url
from fencepost.core.webhooks.signature import parse_secrets
from fencepost.errors import ConfigurationError

VARIABLE = "FENCEPOST_WEBHOOK_SECRETS"
UNSIGNED = (
    "callback_url needs a secret to sign webhooks with: give App(webhooks=Webhooks(secrets=[…])) "
    f"or set {VARIABLE}; `fencepost webhooks secret` prints a fresh one"
)


@dataclass(frozen=True, slots=True, init=False)
class Webhooks:
    """How an app sends webhooks. Every secret signs; receivers need to know one of them."""

    keys: tuple[bytes, ...] = field(repr=False)
    allow_http: bool
    """Allow http:// as well, which anybody on the way can read."""
    allow_networks: tuple[Network, ...]
    """Networks that are not public, and are meant to be reached."""
    timeout: float
    """The longest one delivery may take in all, in seconds."""

    def __init__(
        self,
        secrets: str | Iterable[str],
        *,
        allow_http: bool = False,
        allow_networks: Iterable[str | Network] = (),
        timeout: Duration = WEBHOOK_TIMEOUT_DEFAULT,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "keys", parse_secrets(secrets))
        set_(self, "allow_http", bool(allow_http))
        set_(self, "allow_networks", parse_networks(allow_networks))
        set_(
            self,
            "timeout",
            parse_duration(
                timeout,
                name="Webhooks(timeout=…)",
                minimum=WEBHOOK_TIMEOUT_MIN,
                maximum=WEBHOOK_TIMEOUT_MAX,
            ),
        )

    def check(self, url: object) -> Callback:
        """Return where *url* leads if webhooks may go there, or raise InvalidCallbackError."""
        return check_callback_url(url, allow_http=self.allow_http, allowed=self.allow_networks)


def parse_variable(text: str | None) -> Webhooks | None:
    """Return the settings that the environment's comma-separated secrets make, if there are any."""
    secrets = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not secrets:
        return None
    try:
        return Webhooks(secrets)
    except ConfigurationError as error:
        raise ConfigurationError(f"{VARIABLE}: {error}") from None


def check_callback(url: object, webhooks: Webhooks | None) -> str:
    """Return *url* if a job may name it, or raise; a webhook that nobody could sign is not sent."""
    if webhooks is None:
        raise ConfigurationError(UNSIGNED)
    webhooks.check(url)
    assert isinstance(url, str)
    return url
