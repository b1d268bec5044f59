"""The admin's pages: what they show, what the actions do, and who may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client, override_settings
from tests.django import shop
from tests.servers.django import using_database

from fencepost.django.application import DjangoApp, project_app

LIST = "/admin/fencepost/queuedjob/"


@pytest.fixture
def project_with_users(postgres_url: str) -> Iterator[DjangoApp]:
    """A database with Django's tables and ours: ``manage.py migrate`` makes both."""
    with using_database(postgres_url), override_settings(FENCEPOST={}):
        call_command("migrate", verbosity=0)
        app = project_app()
        assert app.store.pending_migrations() == []
        yield app
        app.close()


def browser(*permissions: str) -> Client:
    """Return a browser in which a member of the staff with these permissions is logged in."""
    user = User.objects.create_user(f"u{User.objects.count()}", is_staff=True)
    for codename in permissions:
        user.user_permissions.add(Permission.objects.get(codename=codename))
    client = Client()
    client.force_login(user)
    return client


def text(response: Any) -> str:
    assert response.status_code == 200
    return str(response.content.decode())


def test_the_pages_show_and_change_what_a_user_may(project_with_users: DjangoApp) -> None:
    """One test, since a database with Django's tables takes seconds to make."""
    app = project_with_users
    waiting = shop.ship.using(delay="1h", tags={"tenant": "7"}, key="order:7").submit(7)
    failed = shop.fail.enqueue("<E7>")
    app.worker().run(until_idle=True)

    _shows(browser("view_queuedjob"), waiting.id, failed.id)
    _searches(browser("view_queuedjob"), waiting.id, failed.id)
    _is_closed_to_others(waiting.id)
    _acts(app, waiting.id, failed.id)
    _pages(browser("view_queuedjob"))


def _shows(viewer: Client, waiting: str, failed: str) -> None:
    assert "fencepost/queuedjob" in text(viewer.get("/admin/"))
    page = text(viewer.get(LIST))
    assert waiting in page
    assert failed in page
    assert "refused &lt;E7&gt;" in page  # escaped
    assert 'name="action"' not in page
    _has_breadcrumbs_like_djangos_own(viewer, page)
    one = text(viewer.get(f"{LIST}{failed}/change/"))
    assert "Traceback" in one
    assert "failed" in one
    assert "&lt;E7&gt;" in one
    assert viewer.get(f"{LIST}00000000-0000-4000-8000-000000000000/change/").status_code == 404
    assert viewer.get(f"{LIST}nonsense/change/").status_code == 404


def _has_breadcrumbs_like_djangos_own(viewer: Client, page: str) -> None:
    """The admin's styles are for one element, which Django 6.1 has changed."""
    element = re.compile(r'<(\w+) class="breadcrumbs">')
    (own,) = element.findall(text(viewer.get("/admin/fencepost/")))
    assert element.findall(page) == [own]


def _searches(viewer: Client, waiting: str, failed: str) -> None:
    only_waiting = [
        "state=delayed",
        "type=ship",
        f"q={waiting}",
        f"q={waiting[:8]}",
        "q=tag:tenant%3D7",
        "q=order:7",
        "q=payload.order%3D7",
    ]
    for query in only_waiting:
        page = text(viewer.get(f"{LIST}?{query}"))
        assert (waiting in page, failed in page) == (True, False), query
    assert failed not in text(viewer.get(f"{LIST}?queue=mail"))
    assert "no state is called" in text(viewer.get(f"{LIST}?state=nonsense"))
    assert "is not a cursor" in text(viewer.get(f"{LIST}?after=nonsense"))


def _is_closed_to_others(waiting: str) -> None:
    nobody, viewer = browser(), browser("view_queuedjob")
    assert nobody.get(LIST).status_code == 403
    assert nobody.get(f"{LIST}{waiting}/change/").status_code == 403
    assert Client().get(LIST).status_code == 302  # to log in
    assert viewer.post(LIST, {"action": "cancel", "id": [waiting]}).status_code == 403
    for path in (f"{LIST}add/", f"{LIST}{waiting}/delete/"):
        assert viewer.get(path).status_code in (403, 404)


def _acts(app: DjangoApp, waiting: str, failed: str) -> None:
    may = [f"{verb}_queuedjob" for verb in ("view", "retry", "cancel", "replay")]
    operator = browser(*may)
    page = text(operator.get(LIST))
    assert all(f'value="{verb}"' in page for verb in ("retry", "cancel", "replay"))

    done = operator.post(LIST, {"action": "cancel", "id": [waiting, failed]}, follow=True)
    assert "1 job was cancelled" in text(done)
    assert "failed" in text(done)  # that one was refused
    assert app.jobs.get(waiting).state == "cancelled"

    assert "was retried" in text(
        operator.post(f"{LIST}{waiting}/change/", {"action": "retry"}, follow=True)
    )
    assert app.jobs.get(waiting).state == "scheduled"

    assert "was replayed" in text(
        operator.post(LIST, {"action": "replay", "id": failed}, follow=True)
    )
    assert app.dead_letters.list().letters == []
    assert "Tick the jobs" in text(operator.post(LIST, {"action": "retry"}, follow=True))
    assert operator.post(LIST, {"action": "delete"}).status_code == 403


def _pages(viewer: Client) -> None:
    shop.ship.submit_many(range(60))
    first = viewer.get(LIST)
    assert len(list(first.context_data["jobs"])) == 50
    older = viewer.get(f"{LIST}{first.context_data['next']}")
    assert not set(_ids(first)) & set(_ids(older))
    assert older.context_data["first"] == "?"


def _ids(response: Any) -> list[str]:
    return [job.id for job in response.context_data["jobs"]]


def test_what_was_typed_is_an_id_a_tag_a_condition_or_a_key() -> None:
    from fencepost.django.admin import conditions_of

    def of(typed: str) -> Any:
        return conditions_of({"state": "", "type": "", "queue": "", "q": typed})

    assert of("order:7") == {"key": "order:7"}
    assert of("tag:tenant=7") == {"tags": {"tenant": "7"}}
    assert of("tag:odd") == {"key": "tag:odd"}
    assert of("payload.a=1") == {"where": "payload.a=1"}
    assert of("3f2a9c") == {"id_prefix": "3f2a9c"}
    assert of("") == {}
