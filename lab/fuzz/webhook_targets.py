"""What webhooks are made of: URLs of receivers, addresses, secrets, answers, and forgeries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from hypothesis import strategies as st

from fencepost.core.bounds import WEBHOOK_RETRY_AFTER_MAX
from fencepost.core.webhooks.callback import (
    Callback,
    check_callback_url,
    may_reach,
    parse_networks,
    parse_variable,
)
from fencepost.core.webhooks.delivery import parse_retry_after
from fencepost.core.webhooks.signature import make_secret, parse_secrets, signed_headers
from fencepost.errors import ConfigurationError, InvalidCallbackError, WebhookVerificationError
from fencepost.webhooks import verify
from lab.fuzz.inputs import bent, bent_bytes, objects, raw_bytes, raw_text
from lab.fuzz.target import Target

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PASSWORD = "s3cr3t-passw0rd"
SECRET = make_secret(bytes(range(32)))
BODY = b'{"type":"job.completed"}'

hosts = (
    st.sampled_from(["example.com", "xn--bcher-kva.example", "localhost", "a.b.c", "127.1", "0x7f"])
    | st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6).map(lambda address: f"[{address}]")
)
urls = st.builds(
    lambda scheme, host, port, rest: f"{scheme}://{host}{port}{rest}",
    st.sampled_from(["https", "https", "http", "ftp"]),
    hosts | hosts.map(lambda host: f"me:{PASSWORD}@{host}"),
    st.sampled_from(["", ":443", ":8443", ":25", ":0"]),
    st.sampled_from(["", "/hook", "/h?token=t", "/h#part", "/%41"]),
)
secrets = st.binary(min_size=24, max_size=64).map(make_secret)
networks = st.sampled_from(["10.0.0.0/8", "fd00::/8", "127.0.0.1", "::1/128", "10.0.0.1/8"])
dates = st.datetimes().map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S GMT"))
signed = signed_headers(parse_secrets(SECRET), id="m", timestamp=int(NOW.timestamp()), body=BODY)
forgeries = st.tuples(
    st.fixed_dictionaries({name: bent(st.just(value)) for name, value in signed.items()})
    | st.dictionaries(bent(st.sampled_from(list(signed))), objects, max_size=3),
    bent_bytes(st.just(BODY)),
)


def _check_url(given: Any, callback: Callback) -> None:
    """What was taken is plain ASCII, goes to no private address, and is read so by others too."""
    sent = callback.authority + callback.target
    assert sent.isascii() and sent.isprintable() and " " not in sent
    assert callback.address is None or may_reach(callback.address)
    assert urlsplit(callback.origin).port in (None, callback.port)
    assert (urlsplit(given).hostname or "").rstrip(".") == callback.host or callback.address
    assert check_callback_url(callback.origin + callback.target) == callback


def _password_of(given: Any) -> str | None:
    return PASSWORD if isinstance(given, str) and PASSWORD in given.partition("#")[0] else None


def _check_wait(_: Any, seconds: float | None) -> None:
    assert seconds is None or 0 <= seconds <= WEBHOOK_RETRY_AFTER_MAX


def _check_webhook(given: tuple[dict[str, Any], bytes], _: Any) -> None:
    """A single changed byte is a forgery."""
    headers, body = given
    assert body == BODY
    lowered = {name.lower(): value for name, value in headers.items()}
    assert lowered["webhook-id"] == signed["webhook-id"]
    assert lowered["webhook-timestamp"] == signed["webhook-timestamp"]
    assert signed["webhook-signature"] in lowered["webhook-signature"].split(" ")


WEBHOOK_TARGETS = (
    Target("callback_url", check_callback_url, bent(urls) | objects, (InvalidCallbackError,),
           _check_url, _password_of),
    Target("webhook secrets", parse_secrets,
           bent(secrets) | objects | st.lists(bent(secrets), max_size=3), (ConfigurationError,)),
    Target("FENCEPOST_WEBHOOK_SECRETS", parse_variable,
           bent(st.lists(secrets, max_size=3).map(",".join)), (ConfigurationError,)),
    Target("allow_networks", parse_networks, objects | st.lists(bent(networks), max_size=3),
           (ConfigurationError,)),
    Target("Retry-After", lambda given: parse_retry_after(given, NOW),
           bent(dates | st.integers(0, 10**6).map(str)) | raw_text, (), _check_wait),
    Target("webhook, verified", lambda given: verify(SECRET, given[0], given[1], now=NOW),
           forgeries | st.tuples(st.just(signed), raw_bytes | st.just(BODY)),
           (WebhookVerificationError,), _check_webhook),
)  # fmt: skip
