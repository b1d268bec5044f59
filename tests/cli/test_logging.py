"""What `fencepost worker` writes to standard error: how attempts end, and the app's own lines."""

from __future__ import annotations

import json
import re

from tests.cli.support import Command, end, wait_until

from fencepost import App

APP = r"""
import logging
from fencepost import App, Retry

app = App(retry=Retry(max_attempts=2, initial_delay=0.01))
mine = logging.getLogger("shop")

@app.task
async def fail(n: int) -> None:
    mine.info("about to fail")
    raise ValueError(f"bad\nnumber {n}")

@app.task(isolation="process")
def in_child() -> None:
    mine.info("in a child")

@app.task(isolation="process")
async def in_child_async() -> None:
    mine.info("on the loop of a child")
"""


def started(command: Command, *words: str, app: str = APP) -> list[str]:
    (command.folder / "app.py").write_text(APP)
    command.submit("fail", '{"n": 7}')
    command.submit("in_child")
    command.submit("in_child_async")
    (command.folder / "app.py").write_text(app)
    # Retries come after a moment, in which a burst would end.
    child = command.start("worker", *words)
    wait_until(lambda: is_over(command), "the end of every job")
    end(child)
    return command.log.splitlines()


def is_over(command: Command) -> bool:
    with App(command.url) as app:
        return app.jobs.count(state=["completed", "dead_letter"]) == 3


def test_the_worker_shows_failures_and_the_apps_own_lines_as_text(command: Command) -> None:
    lines = started(command)
    [warning] = [line for line in lines if " WARNING fail " in line]
    assert "(attempt 1 of 2" in warning
    [error] = [line for line in lines if " ERROR   fail " in line]
    assert "(attempt 2 of 2" in error
    assert any("ValueError: bad" in line for line in lines)
    [own, _] = [line for line in lines if "shop: about to fail id=" in line]
    assert re.search(r"id=[0-9a-f-]{36} type=fail attempt=\d$", own)
    assert any("shop: in a child id=" in line for line in lines)
    assert any("shop: on the loop of a child id=" in line for line in lines)
    assert "\x1b" not in command.log


def test_the_worker_writes_json_if_asked(command: Command) -> None:
    entries = [json.loads(line) for line in started(command, "--log-format", "json")]
    [failed] = [each for each in entries if each.get("event") == "attempt.failed"]
    assert (failed["level"], failed["message"]) == ("error", "bad\nnumber 7")
    assert "Traceback" in failed["exception"]
    own = [each for each in entries if each.get("logger") == "shop"]
    messages = {"about to fail", "in a child", "on the loop of a child"}
    assert {each["message"] for each in own} == messages
    assert all(each["id"] and each["type"] for each in own)


def test_an_app_that_sets_up_logging_keeps_its_own(command: Command) -> None:
    own = "import logging\nlogging.basicConfig(level='INFO', format='OWN %(name)s %(message)s')\n"
    lines = started(command, app=own + APP)
    assert any(re.match("OWN fencepost.jobs fail .* ValueError: bad", line) for line in lines)
    assert any(line.startswith("OWN shop about to fail") for line in lines)
    assert not [line for line in lines if re.match(r"\d\d:\d\d:\d\d", line)]


def test_an_app_whose_configuration_disables_loggers_cannot_silence_failures(
    command: Command,
) -> None:
    own = (
        "import logging.config\n"
        "logging.config.dictConfig({'version': 1, 'root': {'level': 'INFO', 'handlers': ['h']},\n"
        "  'handlers': {'h': {'class': 'logging.StreamHandler'}}})\n"
    )
    lines = started(command, app=APP + own)
    assert any("a dead letter now" in line for line in lines)


def test_a_worker_in_the_wrong_folder_says_that_its_file_is_new(command: Command) -> None:
    (command.folder / "app.py").write_text(APP)
    child = command.start("worker", "--burst")
    assert child.wait(60) == 0
    file = command.folder / "jobs.db"
    assert f"on sqlite:///{file}" in command.log
    [warning] = [line for line in command.log.splitlines() if " WARNING " in line]
    assert f"{file} did not exist" in warning
    assert "FENCEPOST_URL" in warning
    again = command.start("worker", "--burst")
    assert again.wait(60) == 0
    assert command.log.count(" WARNING ") == 1


def test_a_relative_file_is_shown_with_its_folder(command: Command) -> None:
    (command.folder / "app.py").write_text(APP)
    command.store = "sqlite:///here.db"
    child = command.start("worker", "--burst")
    assert child.wait(60) == 0
    assert f"on sqlite:///{command.folder}/here.db" in command.log
