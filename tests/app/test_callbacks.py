"""``callback_url``: checked when it is named, and kept with the job."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost import App, ConfigurationError, InvalidCallbackError, Webhooks
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.webhooks import new_secret

URL = "https://example.com/hook"
VARIABLE = "FENCEPOST_WEBHOOK_SECRETS"


def task_of(app: App) -> Any:
    @app.task
    def work() -> None: ...

    return work


def test_a_callback_is_part_of_the_job() -> None:
    """S1-109."""
    work = task_of(App("memory://", webhooks=Webhooks(new_secret())))
    assert work.using(callback_url=URL).prepare().callback_url == URL
    assert work.using(callback_url=URL).using(delay=1).prepare().callback_url == URL
    assert work.aio.using(callback_url=URL).prepare().callback_url == URL
    assert work.prepare().callback_url is None


def test_a_callback_on_an_app_without_secrets_is_refused_with_what_to_type() -> None:
    """Webhooks that nobody could sign are not sent."""
    work = task_of(App("memory://"))
    with pytest.raises(ConfigurationError, match="`fencepost webhooks secret` prints a fresh one"):
        work.using(callback_url=URL)


@pytest.mark.parametrize(
    "url", ["http://example.com/", "https://127.0.0.1/", "https://u:p@example.com/", 7, ""]
)
def test_a_callback_that_may_not_be_called_is_refused(url: Any) -> None:
    work = task_of(App("memory://", webhooks=Webhooks(new_secret())))
    with pytest.raises(InvalidCallbackError):
        work.using(callback_url=url)


def test_what_is_allowed_is_a_setting_of_the_app() -> None:
    webhooks = Webhooks(new_secret(), allow_http=True, allow_networks=["127.0.0.0/8"])
    work = task_of(App("memory://", webhooks=webhooks))
    assert work.using(callback_url="http://127.0.0.1:8000/").prepare().callback_url


def test_secrets_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{new_secret()},{new_secret()}")
    app = App("memory://")
    assert app.session.webhooks is not None
    assert len(app.session.webhooks.keys) == 2
    own = Webhooks(new_secret())
    assert App("memory://", webhooks=own).session.webhooks is own


def test_a_secret_in_the_environment_that_is_none_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "hunter2")
    with pytest.raises(ConfigurationError, match=VARIABLE) as caught:
        App("memory://")
    assert "hunter2" not in str(caught.value)


def test_an_app_delivers_only_if_it_can_sign() -> None:
    assert DELIVERY_TYPE not in App("memory://").session.tasks
    assert DELIVERY_TYPE in App("memory://", webhooks=Webhooks(new_secret())).session.tasks
