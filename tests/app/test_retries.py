"""The retries of a whole app: ``App(retry=…)``, ``FENCEPOST_RETRY``, and a task's own."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost import App, ConfigurationError, Retry
from fencepost.core.job.policy import Policy


def policy_of(app: App, **options: Any) -> Policy:
    """Return the policy of a job of a new task."""

    @app.task(**options)
    def work() -> None: ...

    policy: Policy = work.submit().refresh().policy
    return policy


def is_like(policy: Policy, retry: Retry) -> bool:
    return (policy.max_attempts, policy.backoff) == (retry.max_attempts, retry.backoff)


def test_without_a_word_a_task_has_three_attempts(app: App) -> None:
    assert is_like(policy_of(app), Retry())


def test_an_app_sets_the_retries_of_its_tasks(url: str) -> None:
    with App(url, retry=Retry.patient()) as app:
        assert is_like(policy_of(app), Retry.patient())


def test_a_tasks_own_retries_win(url: str) -> None:
    with App(url, retry=Retry.patient()) as app:
        assert is_like(policy_of(app, retry=Retry.fast()), Retry.fast())


def test_the_environment_sets_the_retries_of_an_app(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_RETRY", "patient")
    with App(url) as app:
        assert is_like(policy_of(app), Retry.patient())
    with App(url, retry=Retry.fast()) as app:
        assert is_like(policy_of(app), Retry.fast())
    monkeypatch.setenv("FENCEPOST_RETRY", "default")
    with App(url) as app:
        assert is_like(policy_of(app), Retry())


def test_another_word_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_RETRY", "forever")
    with pytest.raises(ConfigurationError, match='"patient" or "default", got \'forever\''):
        App("memory://")


@pytest.mark.parametrize("wrong", [0, False, 5, "patient"])
def test_what_is_no_retry_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="retry must be a Retry"):
        App("memory://", retry=wrong)
    with pytest.raises(ConfigurationError, match="retry must be a Retry"):
        policy_of(App("memory://"), retry=wrong)
