"""Every page with real jobs: what it shows, by keyboard too, and that axe finds nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.dashboard.conftest import Scene, Visit, visiting

from bench.http.dashboard import CHARTS, Ids, addresses, pages, series

ONLY_SOMETIMES = (series(CHARTS, "7d"), "jobs?limit=50&state=completed")
"""What the bench asks for besides: a longer time, and a large state."""

AXE = Path(__file__).parent.parent.parent / "ui" / "node_modules" / "axe-core" / "axe.min.js"
RULES = "'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'"
CONTRAST = "'color-contrast'"
"""The one rule that depends on the theme."""

PAGES = {
    "": "No worker",
    "jobs": "capture_payment",
    "jobs/{running}": "waiting for the acquirer",
    "jobs/{retrying}": "GatewayTimeout",
    "jobs/{delayed}": "Nobody holds it",
    "dead-letters": "KeyError",
    "flows": "render_invoice",
    "flows/{flow}": "payment",
    "queues": "transcode_video",
    "workers": "payments, mail, default, reports",
    "crons": "Every weekday at 08:00",
    "events": "order.paid",
    "tokens": "token",
    "audit": "Audit",
    "system": "This server",
}


def path_of(name: str, scene: Scene) -> str:
    return name.format(**scene.ids)


def violations(page: Any, rules: str = RULES) -> list[str]:
    """Return what axe finds, in words."""
    found = page.evaluate(f"axe.run(document, {{ runOnly: [{rules}] }})")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:160]} {each['nodes'][0]['failureSummary'][:200]}"
        for each in found["violations"]
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_real_jobs_and_axe_finds_nothing_in_either_theme(
    visit: Visit, scene: Scene, name: str
) -> None:
    page = visit.go(path_of(name, scene), PAGES[name])
    page.get_by_role("button", name="Live").wait_for()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for theme, rules in (("light", RULES), ("dark", CONTRAST)):
        page.keyboard.press("t")
        shown = page.evaluate("document.documentElement.dataset.theme")
        assert violations(page, rules) == [], (theme, shown)
    themes = {shown, page.evaluate("document.documentElement.dataset.theme")}
    assert len(themes) == 1


def test_no_page_is_wider_than_a_phone(browser: Any, scene: Scene) -> None:
    options = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    with visiting(browser, scene.url, **options) as visit:
        for name, text in PAGES.items():
            page = visit.go(path_of(name, scene), text)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        page.get_by_role("button", name="More").click()
        page.get_by_role("dialog").get_by_role("link", name="Workers").click()
        page.wait_for_url("**/workers")


def test_the_filter_is_the_address(visit: Visit, scene: Scene) -> None:
    page = visit.go("jobs", "render_invoice")
    page.keyboard.press("/")
    page.keyboard.type("queue:pay")
    page.get_by_role("option", name="queue:payments").wait_for()
    page.keyboard.press("Tab")
    page.wait_for_url("**/jobs?queue=payments")
    page.keyboard.type("tag:tenant:7")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?queue=payments&tag=tenant%3A7")
    expect(page.locator("tr[data-id]")).to_have_count(6)
    page.keyboard.press("Backspace")
    page.wait_for_url("**/jobs?queue=payments")
    page.keyboard.press("Escape")
    page.get_by_role("navigation", name="Jobs by state").get_by_role(
        "link", name="Retrying"
    ).click()
    page.wait_for_url("**/jobs?queue=payments&state=retrying")
    expect(page.locator("tr[data-id]")).to_have_count(3)
    page.go_back()
    page.wait_for_url("**/jobs?queue=payments")
    page.reload()
    expect(page.locator("tr[data-id]")).to_have_count(8)


def test_the_filter_completes_what_the_newest_jobs_have(visit: Visit, scene: Scene) -> None:
    page = visit.go("jobs", "render_invoice")
    for start, value, address in (
        ("tag:reg", "tag:region:eu", "tag=region%3Aeu"),
        ("correlation:order-88101", "correlation:order-88101", "correlation=order-88101"),
        ("error:Gate", "error:tests.dashboard.shop.GatewayTimeout", "error=tests.dashboard.shop"),
    ):
        page.keyboard.press("/")
        page.keyboard.type(start)
        page.get_by_role("option", name=value).wait_for()
        page.keyboard.press("Tab")
        page.wait_for_url(f"**/jobs?{address}*")
        page.locator("tr[data-id]").first.wait_for()
        page.keyboard.press("Backspace")
        page.keyboard.press("Escape")


def test_the_keyboard_alone_opens_a_job_and_goes_on_to_the_next(visit: Visit, scene: Scene) -> None:
    page = visit.go("jobs?type=render_invoice")
    page.locator("tr[data-id]").nth(2).wait_for()
    ids = page.eval_on_selector_all("tr[data-id]", "rows => rows.map(row => row.dataset.id)")
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(f"**/jobs/{ids[1]}")
    page.get_by_text(ids[1], exact=True).wait_for()
    page.keyboard.press("]")
    page.wait_for_url(f"**/jobs/{ids[2]}")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/queues")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search or act")).to_be_focused()
    page.keyboard.type(ids[0][:8])
    page.get_by_role("option", name=re.compile(ids[0][:8])).wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{ids[0]}")


def test_a_number_is_shown_digit_by_digit(visit: Visit, scene: Scene) -> None:
    done = scene.shop.tasks["render_invoice"].submit(1)
    done.result(timeout=20)
    page = visit.go(f"jobs/{done.id}", "Completed")
    page.get_by_role("button", name="Result").click()
    page.get_by_text("9007199254740993").wait_for()


def test_what_ends_meanwhile_is_shown_without_a_reload(visit: Visit, scene: Scene) -> None:
    page = visit.go("jobs?type=thank", "1 of 1")
    page.get_by_role("button", name="Live").wait_for()
    scene.app.event("order.paid").send(order=7)
    page.get_by_text("2 of 2").wait_for()


def test_rows_do_not_move_under_the_pointer(visit: Visit, scene: Scene) -> None:
    page = visit.go("jobs?type=transcode_video", "transcode_video")
    page.locator("tr[data-id]").first.hover()
    first = page.locator("tr[data-id]").first.get_attribute("data-id")
    scene.shop.tasks["transcode_video"].submit("other.mp4")
    page.get_by_role("button", name="1 new job matches. Show them").wait_for()
    assert page.locator("tr[data-id]").first.get_attribute("data-id") == first
    page.keyboard.press("n")
    expect(page.locator("tr[data-id]")).to_have_count(2)


def test_a_job_that_nobody_has_and_a_page_that_is_not_there(visit: Visit, scene: Scene) -> None:
    visit.go("jobs/0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77", "No job has this id")
    visit.go("flows/0e3b7f9c-6a01-4d2e-9c55-6f0d5b1f2a77", "No flow has this id")


def test_a_flow_shows_what_holds_it_up_and_what_took_the_time(visit: Visit, scene: Scene) -> None:
    page = visit.go(f"flows/{scene.ids['flow']}", "attempt 1 of 3")
    page.get_by_text("2 completed", exact=True).wait_for()
    chosen = page.get_by_role("region", name="Chosen node")
    expect(chosen).to_contain_text("reserve, fraud")  # the one that runs is looked at first
    expect(chosen).to_contain_text("2 jobs, at once or in turn")
    waterfall = page.locator("section", has=page.get_by_role("heading", name="Waterfall"))
    expect(waterfall.locator(".track b")).to_have_count(3)
    page.get_by_role("link", name=re.compile("^receipt")).click()
    expect(chosen).to_contain_text("payment")
    page.get_by_role("button", name="List").click()
    expect(page.get_by_role("row").filter(has_text="ship")).to_contain_text("waits for other jobs")


def test_a_flow_says_what_failed_and_what_ended_with_it(visit: Visit, scene: Scene) -> None:
    tasks = scene.shop.tasks
    nodes = {
        "print": tasks["render_invoice"].prepare(7),  # fails for good
        "send": tasks["send_receipt"].using(after=["print"]).prepare(1),
        "file": tasks["render_invoice"].using(after=["send"]).prepare(1),
    }
    flow = scene.app.flow(nodes).submit()
    page = visit.go(f"flows/{flow.id}", "never ran: print")
    failure = page.get_by_role("region", name="Failure of print")
    expect(failure).to_contain_text("the font is not installed")
    expect(failure).to_contain_text("send, file waited for it")
    scene.app.flows.get(flow.id).cancel()


def test_a_flow_of_hundreds_is_drawn_as_a_few_nodes(visit: Visit, scene: Scene) -> None:
    """Equal siblings are one node, whose list has each of them."""
    task = scene.shop.tasks["transcode_video"]  # nobody serves it
    part = task.using(after=["cut"])
    fan = {f"part-{number}": part.prepare(f"{number}") for number in range(320)}
    nodes = {"cut": task.prepare("all"), **fan, "join": task.using(after=[*fan]).prepare("end")}
    flow = scene.app.flow(nodes).submit()
    page = visit.go(f"flows/{flow.id}", "transcode_vid… × 320")
    expect(page.locator("svg.graph a.node")).to_have_count(3)
    expect(page.locator("svg.graph .edge")).to_have_count(2)
    scene.app.flows.get(flow.id).cancel()
    page.get_by_text("322 cancelled", exact=True).last.wait_for()


def test_a_job_says_what_was_looked_at_and_stands_among_its_neighbours(
    visit: Visit, scene: Scene
) -> None:
    page = visit.go(f"jobs/{scene.ids['unserved']}", "No live worker serves it")
    looked = page.get_by_role("list", name="What was looked at").get_by_role("listitem")
    expect(looked.first).to_have_text("not met: No live worker serves it0 of 1 workers")
    expect(looked.filter(has_text="in order:")).to_have_count(4)
    jobs = scene.app.flows.get(scene.ids["flow"]).jobs
    page = visit.go(f"jobs/{jobs['payment'].id}", "of 5 done")
    small = page.get_by_role("group", name="payment among its neighbours")
    names = small.get_by_role("link").evaluate_all("all => all.map(a => a.ariaLabel.split(',')[0])")
    assert names == ["reserve", "fraud", "payment", "receipt", "ship"]
    small.get_by_role("link", name=re.compile("^ship")).click()
    page.wait_for_url(f"**/jobs/{jobs['ship'].id}")


def test_the_charts_are_those_of_a_queue_and_a_type(visit: Visit, scene: Scene) -> None:
    page = visit.go("", "Last hour")
    page.get_by_label("Queue of the charts").select_option("payments")
    page.wait_for_url("**/?queue=payments")
    page.get_by_text("queue payments, all types").wait_for()
    page.get_by_label("Type of the charts").select_option("capture_payment")
    page.wait_for_url("**/?queue=payments&type=capture_payment")
    visit.await_request(f"{series(CHARTS, '1h')}&queue=payments&type=capture_payment")


def test_charts_are_drawn_in_a_language_that_has_no_name(visit: Visit, scene: Scene) -> None:
    """As a WebKit without a locale has it, which says that its language is "C"."""
    nameless = "Object.defineProperty(Navigator.prototype, 'language', { get: () => 'C' })"
    visit.page.add_init_script(nameless)
    page = visit.go("", "Last hour")
    expect(page.locator(".plot canvas")).to_have_count(3)


def test_the_bench_asks_what_the_pages_ask(visit: Visit, scene: Scene) -> None:
    """So that what it measures is what a page costs."""
    job = scene.ids["captured"]
    ids = Ids(job=job, flow=scene.ids["flow"])
    ever = {"stream", *pages(ids)["overview"]}
    for name, path in addresses(ids).items():
        visit.requests.clear()
        visit.go(path).get_by_role("button", name="Live").wait_for()
        visit.page.wait_for_load_state("load")
        for each in pages(ids)[name]:
            if each not in ONLY_SOMETIMES:
                visit.await_request(each)
        asked = {url.partition("/v1/")[2] for url in visit.requests if "/v1/" in url}
        of_rows = {each for each in asked if each.startswith(("crons/", "jobs/")) and name != "job"}
        assert asked - of_rows - ever <= set(pages(ids)[name]), name


def test_flows_are_listed_by_kind_and_older_ones_on_demand(visit: Visit, scene: Scene) -> None:
    page = visit.go("flows", "under way")
    flow = scene.ids["flow"]
    expect(page.locator(f"a[href$='/flows/{flow}']")).to_be_visible()
    page.get_by_role("button", name="failed").click()
    page.wait_for_url("**/flows?kind=failed")
    expect(page.locator(f"a[href$='/flows/{flow}']")).to_have_count(0)
    page.get_by_role("button", name="under way").click()
    page.locator(f"a[href$='/flows/{flow}']").click()
    page.wait_for_url(f"**/flows/{flow}")


def test_a_cron_shows_its_last_runs_and_who_paused_it(visit: Visit, scene: Scene) -> None:
    page = visit.go("crons", "Every weekday at 08:00")
    page.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/jobs/*")
    page = visit.go("crons", "report")
    run = page.locator(".runs a").first
    run.wait_for()
    assert "by hand" in (run.get_attribute("aria-label") or "")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_text("Paused by").wait_for()
    page.get_by_role("button", name="Resume").click()
    run.click()
    page.wait_for_url("**/jobs/*")


def test_workers_show_their_version_the_leader_and_those_that_are_gone(
    visit: Visit, scene: Scene
) -> None:
    worker = scene.shop.start_worker(version="4f2c9d1")
    page = visit.go("workers", worker.id)
    row = page.get_by_role("row").filter(has_text=worker.id).first
    expect(row).to_contain_text("4f2c9d1")
    page.get_by_text("leader").first.wait_for()
    worker.stop()
    gone = page.locator("section", has_text="Gone").get_by_role("row").filter(has_text=worker.id)
    expect(gone).to_contain_text("stopped", timeout=15_000)
