"""``Webhooks``: the settings of an app that sends them."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest

from fencepost.core.webhooks.callback import Webhooks, check_callback, parse_variable
from fencepost.errors import ConfigurationError, InvalidCallbackError, InvalidDurationError

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "A" * 44


def test_settings_are_strict_unless_told() -> None:
    webhooks = Webhooks([SECRET])
    assert (webhooks.allow_http, webhooks.allow_networks, webhooks.timeout) == (False, (), 10.0)


def test_settings_are_checked_and_kept() -> None:
    webhooks = Webhooks(SECRET, allow_http=True, allow_networks=["10.0.0.0/8"], timeout="2s")
    assert webhooks.allow_networks == (IPv4Network("10.0.0.0/8"),)
    assert webhooks.timeout == 2.0
    assert webhooks.check("http://10.1.2.3/hook").host == "10.1.2.3"


def test_secrets_are_not_shown() -> None:
    shown = repr(Webhooks([SECRET, OTHER]))
    assert "MfKQ" not in shown
    assert "keys" not in shown


@pytest.mark.parametrize("timeout", [0, -1, "26s", float("nan"), None, "soon"])
def test_a_timeout_that_a_delivery_cannot_keep_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidDurationError, match="timeout"):
        Webhooks([SECRET], timeout=timeout)


@pytest.mark.parametrize("text", [None, "", " , ,"])
def test_an_environment_without_secrets_has_no_settings(text: str | None) -> None:
    assert parse_variable(text) is None


def test_the_environment_names_several_secrets() -> None:
    webhooks = parse_variable(f"{SECRET}, {OTHER},")
    assert webhooks == Webhooks([SECRET, OTHER])


def test_a_wrong_secret_in_the_environment_is_told_of_by_its_place() -> None:
    with pytest.raises(
        ConfigurationError, match=r"FENCEPOST_WEBHOOK_SECRETS: .*number 2"
    ) as caught:
        parse_variable(f"{SECRET},hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_callback_without_a_secret_to_sign_it_is_refused_with_what_to_type() -> None:
    with pytest.raises(ConfigurationError, match="fencepost webhooks secret"):
        check_callback("https://example.com/", None)


def test_a_callback_is_kept_as_it_was_written() -> None:
    assert check_callback("https://Example.com", Webhooks([SECRET])) == "https://Example.com"
    with pytest.raises(InvalidCallbackError):
        check_callback("https://127.0.0.1/", Webhooks([SECRET]))
