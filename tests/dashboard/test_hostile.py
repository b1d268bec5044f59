"""Strings that are made to become code, in every field that a job can carry: they stay strings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.dashboard.conftest import visiting
from tests.http.serving import serving
from tests.thoroughness import IS_FULL

from fencepost import App, PermanentError, Retry
from fencepost.dashboard.pages import PAGES
from fencepost.errors import FencepostError

CALLS = ("window.owned=1", "owned=1", "alert(1)", "top.owned=1")
TEMPLATES = (
    *("<script>{}</script>", "</script><script>{}</script>", "<img src=x onerror={}>"),
    *('"><img src=x onerror={}>', "'><svg onload={}>", "<svg><script>{}</script></svg>"),
    *("javascript:{}", "<a href=javascript:{}>x</a>", "<iframe srcdoc='<script>{}</script>'>"),
    *("</style><script>{}</script>", "<style>@import'javascript:{}'</style>", "{{{{{}}}}}"),
    *(
        "${{{}}}",
        "<math><mtext></form><form><mglyph><style></math><img src onerror={}>",
    ),
)
OTHERS = (
    *("<b>bold</b>", "&lt;script&gt;", "&#60;script&#62;", "\\u003cscript\\u003e", "<!--", "-->"),
    *("]]>", "<![CDATA[x]]>", "'; drop table jobs; --", '" onfocus="owned=1" autofocus="'),
    *(
        "__proto__",
        "constructor",
        "toString",
        "hasOwnProperty",
        "../../etc/passwd",
        "%00",
        "%2e%2e",
    ),
    *("#main", "?theme=dark", "//evil.example/x", "http://evil.example/", "data:text/html,x"),
    *("${7*7}", "{{7*7}}", "\u202egnp.exe", "a\u0301" * 20, "😀" * 20, "x" * 60),
)
HOSTILE = [template.format(call) for template in TEMPLATES for call in CALLS] + list(OTHERS)


ONCE = Retry(max_attempts=1)
FRAME = """
def fail(error: Exception) -> None:
    raise error
"""


class HostileError(PermanentError):
    """Its message and its code are hostile, too."""


def raise_from(file: str, error: Exception) -> None:
    """Raise *error* in a frame whose file has this name: it is in the traceback."""
    names: dict[str, Any] = {}
    exec(compile(FRAME, file.replace("\0", ""), "exec"), names)
    names["fail"](error)


def harmless(text: str, nested: dict[str, Any] | None = None) -> str:
    raise_from(text, HostileError(text, code=text[:60]))
    return text


def submitting(app: App, text: str) -> Any:
    """Return a task whose type is *text*, which a cron of this name submits; else a plain one."""
    try:
        task = app.task(name=text[:60], retry=ONCE)(harmless)
    except FencepostError:
        return app.task(name=f"harmless{HOSTILE.index(text)}", retry=ONCE)(harmless)
    with suppress(FencepostError):  # a few begin the same
        app.cron("0 9 * * *", name=text[:50], arguments={"text": text})(task)
    return task


def fill(app: App) -> None:
    """Put every string wherever the store takes it."""
    for text in HOSTILE:
        task = submitting(app, text)
        with suppress(FencepostError):
            app.tokens.create(text[:60], roles=["read"])
        options: dict[str, Any] = {
            "tags": {text[:60]: text[:120]},
            "correlation_id": text[:100],
            "key": f"{text[:80]}",
            "concurrency_key": text[:60],
            "queue": text[:60],
        }
        for name in list(options):
            try:
                task.using(**{name: options[name]})
            except (FencepostError, ValueError):
                del options[name]  # the store refuses it, which is as good
        task.using(**options).submit(text, {text: [text, {text: text}]})


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    with App(f"sqlite:///{folder}/jobs.db") as app:
        fill(app)
        # In a thread: the browser's driver has an event loop in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(app.worker(concurrency=4).run, until_idle=True).result(60)
        for number, text in enumerate(HOSTILE[:30]):
            try:
                app.session.store.run(
                    app.session.store.cluster.announce(worker_named(text, number, app))
                )
            except FencepostError:
                continue
        app.event("order.paid").send(text=HOSTILE[0])
        yield app


@pytest.fixture(scope="module")
def signed_in(app: App) -> dict[str, Any]:
    """What a tab needs now that there are tokens."""
    text = app.tokens.create("admin", roles=["admin", "read", "operate"]).text
    return {"extra_http_headers": {"authorization": f"Bearer {text}"}}


def worker_named(name: str, number: int, app: App) -> Any:
    from fencepost.core.stats.overview import WorkerInfo

    return WorkerInfo(
        id=f"{name[:80]}{number}",
        host=name[:60],
        pid=number,
        queues={name[:60]: 1},
        types=(name[:60],),
        concurrency=2,
        started_at=app.session.clock.now(),
    )


def is_clean(page: Any) -> None:
    """Raise if a string has become anything but text."""
    assert page.evaluate("typeof window.owned") == "undefined"
    assert (
        page.evaluate(
            "document.querySelectorAll('iframe,img,object,embed,base,form[action]').length"
        )
        == 0
    )
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate("({}).polluted") is None
    names = "[...document.querySelectorAll('*')].flatMap(each => each.getAttributeNames())"
    assert [name for name in page.evaluate(names) if name.startswith("on")] == []
    links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.protocol)")
    assert set(links) <= {"http:", ""}


def test_there_are_enough_of_them() -> None:
    assert len(set(HOSTILE)) >= 60


def test_the_store_takes_most_of_them_as_names(app: App) -> None:
    """Of types, queues, crons and tokens: the pages have something to show."""
    assert (
        len({job.type for job in app.jobs.find(limit=100)} & {text[:60] for text in HOSTILE}) > 60
    )
    for found in (app.queues.list(), app.crons.list(), app.tokens.list()):
        assert len(found) > 60


def test_hostile_strings_run_as_nothing_on_any_page(
    browser: Any, app: App, signed_in: dict[str, Any]
) -> None:
    with serving(app) as server, visiting(browser, server.url, **signed_in) as visit:
        for path in (path.removeprefix("/") for path in PAGES if "{" not in path):
            page = visit.go(path)
            page.get_by_role("button", name="Live").wait_for()
            expect(page.locator(".loading")).to_have_count(0)
            is_clean(page)
        page = visit.go("jobs")
        expect(page.locator("tr[data-id]").nth(40)).to_be_visible()
        ids = page.eval_on_selector_all("tr[data-id]", "rows => rows.map(row => row.dataset.id)")
        for job_id in ids[:: 6 if IS_FULL else 12]:
            page = visit.go(f"jobs/{job_id}", "Timeline")
            page.locator(".attempt").first.wait_for()
            page.get_by_role("button", name="JSON").click()
            page.locator(".json .l").nth(5).wait_for()
            is_clean(page)


def test_a_hostile_filter_is_only_a_filter(
    browser: Any, app: App, signed_in: dict[str, Any]
) -> None:
    with serving(app) as server, visiting(browser, server.url, **signed_in) as visit:
        for text in HOSTILE[:: 9 if IS_FULL else 18]:
            page = visit.go("jobs?" + "tag=" + json.dumps(text))
            page.goto(f"{server.url}/jobs")
            field = page.get_by_label("Filter jobs")
            field.fill(f"correlation:{text}")
            field.press("Enter")
            page.locator(".tok").first.wait_for()
            is_clean(page)
