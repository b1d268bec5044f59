"""The Flask extension: its site's settings, context around attempts, and commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from click.testing import Result
from flask import Flask, current_app, g, has_app_context

from fencepost import App, ConfigurationError, JobFailedError, Retry
from fencepost.flask import Fencepost
from fencepost.flask.extension import AppSettings


def make_site(folder: Path, **config: Any) -> Flask:
    site = Flask("shop")
    site.config.update(TOWN="Porto", FENCEPOST_URL=f"sqlite:///{folder}/jobs.db", **config)
    return site


def town() -> str:
    return str(current_app.config["TOWN"])


async def town_async() -> str:
    return town()


@pytest.mark.parametrize("handler", [town, town_async])
def test_handlers_run_in_the_context_of_the_site(
    tmp_path: Path, handler: Callable[..., Any]
) -> None:
    queue = Fencepost()
    task = queue.task(handler)
    queue.init_app(make_site(tmp_path))
    job = task.submit()
    assert not has_app_context()
    queue.worker().run(until_idle=True)
    assert job.result(0) == "Porto"
    assert not has_app_context()
    queue.close()


def test_each_attempt_has_a_context_of_its_own_that_ends_with_it(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    queue = Fencepost(site)
    ended: list[str | None] = []

    @site.teardown_appcontext
    def note(error: BaseException | None) -> None:
        ended.append(None if error is None else str(error))

    @queue.task(retry=Retry.none())
    def work(fails: bool) -> bool:
        was_there = hasattr(g, "seen")
        g.seen = True
        if fails:
            raise ValueError("broken")
        return was_there

    jobs = work.submit_many([False, False, True])
    queue.worker(concurrency=1).run(until_idle=True)
    assert [job.result(0) for job in jobs[:2]] == [False, False]
    with pytest.raises(JobFailedError, match="broken"):
        jobs[2].result(0)
    assert sorted(map(str, ended)) == ["None", "None", "broken"]
    queue.close()


def test_a_view_submits(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    queue = Fencepost(site)
    assert site.extensions["fencepost"] is queue

    @queue.task
    def double(x: int) -> int:
        return 2 * x

    @site.post("/double")
    def view() -> dict[str, str]:
        return {"id": double.submit(4).id}

    answer = site.test_client().post("/double")
    queue.worker().run(until_idle=True)
    assert answer.json is not None
    assert queue.jobs.get(answer.json["id"]).result(0) == 8
    queue.close()


# Which store.


def test_the_setting_of_the_site_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_URL", "memory://")
    queue = Fencepost()
    assert queue.url == "memory://"
    queue.init_app(Flask("plain"))
    assert queue.url == "memory://"
    queue.init_app(make_site(tmp_path))
    assert queue.url == queue.store.url == f"sqlite:///{tmp_path}/jobs.db"
    queue.close()
    chosen = Fencepost(make_site(tmp_path), "memory://")
    assert chosen.url == "memory://"


def test_sites_that_are_made_one_after_the_other_have_their_own_stores(tmp_path: Path) -> None:
    """As the tests of a site with a factory make them."""
    queue = Fencepost()

    @queue.task
    def work() -> str:
        return town()

    for name in ("Porto", "Faro"):
        (tmp_path / name).mkdir()
        queue.init_app(make_site(tmp_path / name))
        assert queue.site is not None
        queue.site.config["TOWN"] = name
        assert queue.jobs.count() == 0
        job = work.submit()
        queue.worker().run(until_idle=True)
        assert job.result(0) == name
    queue.close()


def test_it_can_be_used_again_after_it_was_closed(tmp_path: Path) -> None:
    queue = Fencepost(make_site(tmp_path))

    @queue.task
    def work() -> None: ...

    with queue:
        work.submit()
    assert queue.jobs.count() == 1
    queue.close()


# Mistakes.


def test_without_a_site_there_is_no_worker(tmp_path: Path) -> None:
    queue = Fencepost(url=f"sqlite:///{tmp_path}/jobs.db")

    @queue.task
    def work() -> None: ...

    work.submit()
    with pytest.raises(ConfigurationError, match=r"no Flask site: .*init_app"):
        queue.worker()
    queue.close()


def test_it_takes_the_settings_of_an_app() -> None:
    parameters = list(inspect.signature(App.__init__).parameters)
    assert set(parameters) - {"self", "url"} == AppSettings.__annotations__.keys()
    queue = Fencepost(url="memory://", name="shop", retry=Retry.none())
    assert queue.name == "shop"
    assert get_type_hints(Fencepost.init_app, {"Flask": Flask})["site"] is Flask


# Commands.


def invoke(site: Flask, *words: str) -> Result:
    return site.test_cli_runner().invoke(args=["fencepost", *words])


def test_the_commands_are_about_the_app_of_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    site = make_site(tmp_path)
    queue = Fencepost(site)

    @queue.task
    def greet(name: str) -> str:
        return f"Hello {name} from {town()}"

    submitted = invoke(site, "submit", "greet", '{"name": "Ada"}')
    assert submitted.exit_code == 0, submitted.output
    assert invoke(site, "submit", "greet", '{"name": 7}').exit_code == 1
    done = invoke(site, "worker", "--burst")
    assert done.exit_code == 0, done.output
    job_id = submitted.output.strip()
    assert queue.jobs.get(job_id).result(0) == "Hello Ada from Porto"
    assert job_id in invoke(site, "jobs", "ls").output
    assert invoke(site, "jobs", "ls", "--url", f"sqlite:///{tmp_path}/other.db").exit_code == 1
    assert invoke(site, "nonsense").exit_code == 2
    queue.close()


def test_what_is_to_be_typed_next_is_the_sites_command(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    queue = Fencepost(site)

    @queue.task
    def work() -> None: ...

    work.submit_many([()] * 3)
    shown = invoke(site, "jobs", "ls", "--limit", "1").output
    assert "flask fencepost" in shown
    queue.close()
