"""What one can do on the pages: each action, what it asks first, and what it says when refused."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect
from tests.cli.support import wait_until
from tests.dashboard.conftest import PATIENCE, Scene, Visit, visiting


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def test_a_waiting_job_is_cancelled_at_once_and_taken_back(visit: Visit, scene: Scene) -> None:
    job = scene.shop.tasks["render_invoice"].using(delay=3600).submit(1)
    page = visit.go(f"jobs/{job.id}", "Nobody holds it")
    button(page, "Cancel").click()
    page.get_by_text("Cancelled.").wait_for()
    page.locator(".pill", has_text="Cancelled").wait_for()
    assert scene.app.jobs.get(job.id).state == "cancelled"
    button(page, "Undo").click()
    page.get_by_text("It waits again.").wait_for()
    expect(page.locator(".pill", has_text="Cancelled")).to_have_count(0)
    assert scene.app.jobs.get(job.id).state != "cancelled"


def test_a_running_job_is_asked_about_first(visit: Visit, scene: Scene) -> None:
    job = scene.shop.tasks["settle_batch"].submit("2026-11-16")
    page = visit.go(f"jobs/{job.id}", "s left")
    button(page, "Cancel…").click()
    asked = page.get_by_role("dialog")
    asked.get_by_text("loses its lease now").wait_for()
    button(asked, "Not now").click()
    assert scene.app.jobs.get(job.id).state == "running"
    button(page, "Cancel…").click()
    button(page, "Cancel the job").click()
    page.locator(".pill", has_text="Cancelled").wait_for()
    assert scene.app.jobs.get(job.id).state == "cancelled"


def test_a_payload_is_edited_and_keeps_its_digits(visit: Visit, scene: Scene) -> None:
    job = scene.shop.tasks["transcode_video"].submit("old.mp4")
    page = visit.go(f"jobs/{job.id}", "old.mp4")
    button(page, "Edit…").first.click()
    payload = page.get_by_label("Payload")
    payload.fill('{"path": "new.mp4", "size": 9007199254740993}')
    button(page, "Save").click()
    # The server's app knows what its task takes, and says so in the box.
    page.get_by_role("alert").get_by_text("size").wait_for()
    payload.fill('{"path": "9007199254740993.mp4"')
    button(page, "Save").click()
    page.get_by_role("alert").get_by_text("not JSON").wait_for()
    payload.fill('{"path": "9007199254740993.mp4"}')
    button(page, "Save").click()
    page.get_by_text("Changed.").wait_for()
    assert scene.app.jobs.get(job.id).payload == {"path": "9007199254740993.mp4"}


def test_selected_jobs_are_cancelled_with_a_count(visit: Visit, scene: Scene) -> None:
    tag = {"batch": "few"}
    jobs = scene.shop.tasks["transcode_video"].using(tags=tag)
    ids = {jobs.submit(f"{number}.mp4").id for number in range(3)}
    page = visit.go("jobs?tag=batch%3Afew")
    expect(page.locator("tr[data-id]")).to_have_count(3)
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    page.get_by_text("2 selected").wait_for()
    page.get_by_role("button", name="Cancel… 2").click()
    page.get_by_role("dialog").get_by_text(
        "2 jobs never start. They can be retried later."
    ).wait_for()
    button(page, "Cancel 2").click()
    page.get_by_text("2 jobs cancelled.").wait_for()
    states = sorted(scene.app.jobs.get(each).state for each in ids)
    assert states == ["cancelled", "cancelled", "scheduled"]


def test_all_that_match_are_counted_and_the_number_is_typed(visit: Visit, scene: Scene) -> None:
    jobs = scene.shop.tasks["transcode_video"].using(tags={"batch": "many"})
    jobs.submit_many([{"path": f"{number}.mp4"} for number in range(120)])
    page = visit.go("jobs?tag=batch%3Amany")
    expect(page.locator("tr[data-id]").nth(49)).to_be_visible()
    page.keyboard.press("a")
    page.keyboard.press("a")
    page.get_by_text("All 120 that match", exact=True).wait_for()
    page.get_by_role("button", name="Cancel…").click()
    asked = page.get_by_role("dialog")
    asked.get_by_text("Cancel 120 jobs?").wait_for()
    expect(button(asked, "Cancel 120")).to_be_disabled()
    asked.get_by_label("Type 120 to go on").fill("120")
    button(asked, "Cancel 120").click()
    page.get_by_text("120 jobs cancelled.").wait_for()
    assert scene.app.jobs.count(type="transcode_video", state="cancelled") >= 120


def test_jobs_are_found_by_their_payload_and_get_a_priority(visit: Visit, scene: Scene) -> None:
    """What is costly says so; the priority is set at once, and taken back."""
    task = scene.shop.tasks["transcode_video"].using(delay=3600, tags={"batch": "looked"})
    ids = [task.submit(f"{number}.mov").id for number in range(3)]
    page = visit.go("jobs?tag=batch%3Alooked")
    expect(page.locator("tr[data-id]")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("payload.path:1.mov")
    page.keyboard.press("Enter")
    page.wait_for_url("**where=payload.path%3D1.mov*")
    expect(page.locator("tr[data-id]")).to_have_count(1)
    page.get_by_text("Looked at 3 jobs, all that meet the other conditions.").wait_for()
    for key in ("Escape", "j", "x"):
        page.keyboard.press(key)
    page.get_by_label("Set the priority").select_option("critical")
    page.get_by_text("1 job now of priority critical.").wait_for()
    assert scene.app.jobs.get(ids[1]).refresh().priority == 0
    button(page, "Undo").click()
    page.get_by_text("1 job now of priority normal.").wait_for()
    assert [scene.app.jobs.get(each).refresh().priority for each in ids] == [2, 2, 2]


def test_delayed_jobs_run_now_and_the_oldest_come_first(visit: Visit, scene: Scene) -> None:
    task = scene.shop.tasks["transcode_video"].using(delay=3600, tags={"batch": "late"})
    ids = [task.submit(f"{number}.avi").id for number in range(3)]
    page = visit.go("jobs?tag=batch%3Alate")
    expect(page.locator("tr[data-id]")).to_have_count(3)
    page.get_by_role("button", name=re.compile("^Age")).click()
    page.wait_for_url("**order=oldest*")
    expect(page.locator("tr[data-id]").first).to_have_attribute("data-id", ids[0])
    page.keyboard.press("a")
    page.keyboard.press("a")
    page.get_by_text("All 3 that match", exact=True).wait_for()
    button(page, "Run now…").click()
    page.get_by_role("dialog").get_by_text("Run now 3 jobs?").wait_for()
    button(page, "Run now 3").click()
    page.get_by_text("3 jobs due now.").wait_for()
    assert all(scene.app.jobs.get(each).state != "delayed" for each in ids)


def test_the_rate_of_a_type_is_set_and_taken_back(visit: Visit, scene: Scene) -> None:
    page = visit.go("queues", "transcode_video")
    row = page.get_by_role("row", name=re.compile("^transcode_video"))
    button(row, "Rate…").click()
    field = page.get_by_label("At most, such as 100/m or 10/30s; empty for no rate")
    field.fill("often")
    expect(button(page, "Set the rate")).to_be_disabled()
    field.fill("3/fortnight")
    button(page, "Set the rate").click()
    page.get_by_text("cannot read the window of rate").wait_for()
    button(row, "Rate…").click()
    field.fill("100/m")
    button(page, "Set the rate").click()
    row.get_by_role("cell", name="100 a minute", exact=True).wait_for()
    button(page, "Undo").click()
    row.get_by_role("cell", name="no rate", exact=True).wait_for()


def test_a_queue_is_paused_limited_and_taken_back(visit: Visit, scene: Scene) -> None:
    page = visit.go("queues", "media")
    row = page.get_by_role("row", name=re.compile("^media"))
    button(row, "Pause").click()
    page.get_by_text("Queue media is paused.").wait_for()
    row.get_by_text("Paused").wait_for()
    button(page, "Undo").click()
    expect(row.get_by_text("Paused")).to_have_count(0)
    button(row, "Limit…").click()
    page.get_by_label("At most; empty for no limit").fill("5")
    button(page, "Set the limit").click()
    row.get_by_text("0 / 5").wait_for()
    queue = next(each for each in scene.app.queues.list() if each.name == "media")
    assert (queue.is_paused, queue.max_running) == (False, 5)


def test_dead_letters_are_replayed_at_a_rate_by_the_server(visit: Visit, scene: Scene) -> None:
    """It is held, goes on without the page that started it, and is seen again."""
    before = len(scene.app.dead_letters.list(type="send_receipt"))
    page = visit.go("dead-letters?type=send_receipt", "KeyError")
    page.get_by_label("All in this group").check()
    page.get_by_role("slider").fill("1")
    page.get_by_label(re.compile("^Change these fields")).fill('{"a":')
    page.get_by_text("The fields are not a JSON object.").wait_for()
    start = page.get_by_role("button", name=re.compile(f"^Replay {before} at 1 a second"))
    expect(start).to_be_disabled()
    page.get_by_label(re.compile("^Change these fields")).fill("")
    start.click()
    button(page, f"Replay {before}").click()
    page.get_by_text(f"Replay of {before} dead letters started.").wait_for()
    row = page.get_by_role("list", name="Replays").get_by_role("listitem").first
    button(row, "Hold").click()
    row.get_by_text("held, 1 a second, stops above 20 % failed").wait_for()
    (held,) = scene.app.replays.list()
    assert (held.state, held.total, held.stop_above) == ("held", before, 0.2)
    button(row, "Resume").click()
    page.goto(f"{scene.url}/queues")
    wait_until(lambda: scene.app.replays.get(held.id).state == "done", "the replay is done")
    page = visit.go("dead-letters", "Replays")
    page.get_by_text(f"{before} of {before} replayed").wait_for()
    replayed = [job for job in scene.app.jobs.find(type="send_receipt") if job.replay_of]
    assert len(replayed) == before


def test_a_replay_is_stopped_by_hand(visit: Visit, scene: Scene) -> None:
    replay = scene.app.replays.start(type="nothing-of-this", rate=0.01)
    scene.app.replays.hold(replay.id)
    page = visit.go("dead-letters", "nothing-of-this")
    row = page.get_by_role("list", name="Replays").get_by_role("listitem").first
    button(row, "Stop").click()
    row.get_by_text("stopped by hand").wait_for()
    assert scene.app.replays.get(replay.id).state == "stopped"


def test_a_cron_is_run_now(visit: Visit, scene: Scene) -> None:
    page = visit.go("crons", "Every weekday at 08:00")
    button(page, "Run now").click()
    page.wait_for_url("**/jobs/*")
    page.locator(".title", has_text="report").wait_for()


def sign_in(page: Any, token: str) -> None:
    page.get_by_label("Token").fill(token)
    button(page, "Sign in").click()


def test_roles_tokens_and_what_becomes_of_a_revoked_one(browser: Any, scene: Scene) -> None:
    """The last test of the file: from the first token on, every request needs one."""
    reader = scene.app.tokens.create("reader", roles=["read"])
    with visiting(browser, scene.url) as visit:
        page = visit.page
        page.goto(f"{scene.url}/queues")
        page.get_by_label("Token").wait_for()  # within seconds: a server keeps that there is none
        sign_in(page, "fp_wrong")
        page.get_by_role("alert").get_by_text("This token is not valid here.").wait_for()
        sign_in(page, reader.text)
        page.get_by_text("media").filter(visible=True).first.wait_for()
        row = page.get_by_role("row", name=re.compile("^media"))
        pause = button(row, "Pause")
        if pause.is_enabled():  # the server cannot say what the token may: the first try does
            pause.click()
            page.get_by_text("Needs the role operate").wait_for()
        expect(pause).to_be_disabled()
        assert "Needs the role operate" in (pause.get_attribute("title") or "")
        page.get_by_role("link", name=re.compile("^Jobs")).first.click()
        page.locator("tr[data-id]").first.wait_for()
        expect(page.get_by_role("checkbox")).to_have_count(0)
        assert not [url for url in visit.requests if reader.text in url]
        scene.app.tokens.revoke(reader.record.id)
        page.get_by_label("Token").wait_for(timeout=PATIENCE)
        expect(page.locator("tr[data-id]")).to_have_count(0)
        operator = scene.app.tokens.create("operator", roles=["read", "operate"])
        while page.get_by_label("Token").count():  # as above
            sign_in(page, operator.text)
            page.get_by_role("alert").or_(page.locator("tr[data-id]").first).first.wait_for()
        page.reload()
        page.locator("tr[data-id]").first.wait_for()
        page.goto(f"{scene.url}/queues")
        button(row, "Pause").click()
        page.get_by_text("Queue media is paused.").wait_for()
