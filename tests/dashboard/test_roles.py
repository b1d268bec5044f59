"""What each role may do on the pages: what it may not is locked, and says which role it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.dashboard.conftest import Scene, Visit, scene_in, visiting

ACTIONS = {
    "jobs/{delayed}": {"operate": ["Edit…", "Run now", "Cancel"]},
    "jobs/{running}": {"operate": ["Cancel…"]},
    "jobs/{dead}": {"operate": ["Replay", "Retry"], "submit": ["Copy and edit…"]},
    "flows/{flow}": {"operate": ["Cancel…"]},
    "dead-letters": {"operate": ["Discard all…", "Replay 1"]},
    "queues": {"operate": ["Limit…", "Rate…", "Pause", "Change…"]},
    "crons": {"operate": ["Run now", "Pause"]},
}
"""Of each page: the actions, by the role that they need."""


@pytest.fixture(scope="module")
def scene(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A shop of its own, since it has tokens."""
    with scene_in(tmp_path_factory.mktemp("roles")) as scene:
        scene.app.tokens.create("first", roles=["admin"])
        yield scene


def signed_in(browser: Any, scene: Scene, name: str, **options: Any) -> Any:
    text = scene.app.tokens.create(name, **options).text
    headers = {"authorization": f"Bearer {text}"}
    return visiting(browser, scene.url, extra_http_headers=headers)


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True).filter(visible=True).first


def open_page(visit: Visit, scene: Scene, path: str) -> Any:
    page = visit.go(path.format(**scene.ids))
    page.get_by_role("button", name="Live").wait_for()
    return page


@pytest.mark.parametrize(
    ("roles", "locked", "open_"),
    [
        (["read"], ("operate", "submit"), ()),
        (["read", "submit"], ("operate",), ("submit",)),
        (["read", "operate"], ("submit",), ("operate",)),
        (["read", "submit", "operate"], (), ("operate", "submit")),
    ],
)
def test_an_action_is_locked_without_its_role_and_says_so(
    browser: Any, scene: Scene, roles: list[str], locked: tuple[str, ...], open_: tuple[str, ...]
) -> None:
    with signed_in(browser, scene, "-".join(roles), roles=roles) as visit:
        for path, actions in ACTIONS.items():
            page = open_page(visit, scene, path)
            for role, names in actions.items():
                for name in names:
                    expect(button(page, name)).to_be_enabled(enabled=role in open_)
                    if role in locked:
                        told = button(page, name).get_attribute("title")
                        assert told is not None, (path, name)
                        assert f"Needs the role {role}" in told, (path, name)


def test_pages_of_administrators_say_that_they_are_not_for_a_reader(
    browser: Any, scene: Scene
) -> None:
    with signed_in(browser, scene, "looks", roles=["read"]) as visit:
        for path in ("tokens", "audit"):
            page = open_page(visit, scene, path)
            page.get_by_text("Not for this token").wait_for()


def test_a_token_for_one_queue_sees_that_queue_alone(browser: Any, scene: Scene) -> None:
    roles = ["read", "operate"]
    with signed_in(browser, scene, "mailer", roles=roles, queues=["mail"]) as visit:
        page = open_page(visit, scene, "queues")
        page.get_by_role("link", name="mail", exact=True).wait_for()
        expect(page.get_by_role("link", name="payments", exact=True)).to_have_count(0)
        page = open_page(visit, scene, "jobs")
        expect(page.locator("tr[data-id]")).to_have_count(5)
        page = visit.go(f"jobs/{scene.ids['running']}", "No job has this id")
