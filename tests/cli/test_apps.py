"""Finding the app that a user names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.support import Command

from fencepost.cli.apps import find_app
from fencepost.cli.main import cli
from fencepost.cli.options import Settings
from fencepost.errors import ConfigurationError


def test_an_app_in_app_py_need_not_be_named(command: Command) -> None:
    assert "add" in find_app(None, Settings()).session.tasks


def test_a_module_alone_names_its_lone_app(command: Command) -> None:
    (command.folder / "shop.py").write_text("from fencepost import App\nqueue = App()\n")
    assert find_app("shop", Settings()).session.tasks == {}
    assert find_app("shop:queue", Settings()) is find_app("shop", Settings())


def test_an_app_in_a_package_is_named_by_dots(command: Command) -> None:
    (command.folder / "store").mkdir()
    (command.folder / "store" / "jobs.py").write_text("from fencepost import App\napp = App()\n")
    assert find_app("store.jobs:app", Settings()).name == "fencepost"


def test_a_url_that_was_typed_wins_over_that_of_the_app(command: Command) -> None:
    (command.folder / "shop.py").write_text(
        "from fencepost import App\napp = App('sqlite:///own.db')\n"
    )
    settings = Settings(url="sqlite:///typed.db", is_url_given=True)
    assert find_app("shop:app", settings).session.url == "sqlite:///typed.db"


def test_without_a_typed_url_the_app_decides(command: Command) -> None:
    (command.folder / "shop.py").write_text(
        "from fencepost import App\napp = App('sqlite:///own.db')\n"
    )
    settings = Settings(url="sqlite:///from-environment.db")
    assert find_app("shop:app", settings).url == "sqlite:///own.db"
    assert settings.url == "sqlite:///own.db"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:app", "no module is called 'nowhere', neither in"),
        ("app.inner:app", "no module is called 'app.inner'"),
        ("ap:app", "nor installed; did you mean 'app'?"),
        ("app:nothing", "module 'app' has no 'nothing'; did you mean `app:app`?"),
        ("app:add", "`app:add` is not an App but a TaskHandle; did you mean `app:app`?"),
        ("app.py", "'app.py' is a file; name its module: `app:app`"),
        ("./shop/tasks.py:app", "is a file; name its module: `shop.tasks:app`"),
        ("a b", "'a b' is not of the form module:attribute"),
        ("broken:app", "broken.py:2: ZeroDivisionError: division by zero"),
        ("unreadable:app", "unreadable.py:1: SyntaxError"),
        ("needy:app", "importing 'needy' failed at"),
        ("empty", "module 'empty' has no App; add `app = App()` to it, or name another module"),
        ("two", "module 'two' has several apps: first, second; name one as `two:first`"),
    ],
)
def test_an_app_that_cannot_be_had_says_why(command: Command, name: str, message: str) -> None:
    made = "from fencepost import App\n"
    for module, text in {
        "broken": "\n1 / 0\n",
        "unreadable": "def (:\n",
        "needy": "import not_installed_anywhere\n",
        "empty": "",
        "two": f"{made}first = App()\nsecond = App()\n",
    }.items():
        (command.folder / f"{module}.py").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        find_app(name, Settings())
    assert message in str(caught.value)


def test_no_name_and_no_app_py_says_what_to_do(command: Command) -> None:
    Path("app.py").unlink()
    with pytest.raises(ConfigurationError, match=r"there is no app\.py in"):
        find_app(None, Settings())


def test_an_app_without_tasks_is_not_run(command: Command) -> None:
    (command.folder / "idle.py").write_text("from fencepost import App\napp = App()\n")
    result = command("worker", "idle:app")
    assert result.exit_code == 1
    assert "has no tasks" in result.stderr


OWN = """
from fencepost import App

app = App("sqlite:///own.db")


@app.task
def greet(name: str) -> None: ...
"""


@pytest.fixture
def shop(command: Command) -> str:
    """Write an app that names a store of its own, and return the id of a job in it."""
    (command.folder / "shop.py").write_text(OWN)
    return typed(command, "submit", "greet", '{"name": "Ada"}', "--app", "shop:app").stdout.strip()


def typed(command: Command, *words: str, **environment: str) -> Result:
    """Run the command without --url."""
    command.forget_modules()
    return CliRunner(env=environment).invoke(cli, words)


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "ls"),
        ("jobs", "why", "{id}"),
        ("dlq", "ls"),
        ("queues", "ls"),
        ("queues", "pause", "default"),
        ("queues", "limit", "default", "3"),
        ("queues", "limit", "--all", "3"),
        ("types", "resume", "greet"),
        ("types", "limit", "greet", "10/m"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_command_uses_the_store_of_the_app_that_is_named(
    command: Command, shop: str, words: tuple[str, ...]
) -> None:
    words = tuple(word.format(id=shop) for word in words)
    assert "there is no database" in typed(command, *words).output
    assert typed(command, *words, "--app", "shop:app").exit_code == 0
    assert typed(command, *words, FENCEPOST_APP="shop:app").exit_code == 0
    assert not (command.folder / "fencepost.db").exists()


def test_a_url_wins_over_the_app_of_the_environment_but_not_over_one_that_is_typed(
    command: Command, shop: str
) -> None:
    other = command.submit("add", '{"a": 1, "b": 2}')
    environment = {"FENCEPOST_URL": command.url, "FENCEPOST_APP": "shop:app"}
    assert other in typed(command, "jobs", "ls", **environment).stdout
    assert shop in typed(command, "jobs", "ls", "--app", "shop:app", **environment).stdout
    words = ("jobs", "ls", "--app", "shop:app", "--url", command.url)
    assert other in typed(command, *words, **environment).stdout


def test_migrate_looks_at_the_store_of_the_app(command: Command, shop: str) -> None:
    words = ("migrate", "--plan", "--json")
    assert json.loads(typed(command, *words).stdout)["pending"]
    assert json.loads(typed(command, *words, "--app", "shop:app").stdout) == {"pending": []}


def test_without_a_database_the_app_here_is_offered(command: Command) -> None:
    assert "name the store of app.py with --app app" in typed(command, "jobs", "ls").output
    (command.folder / "app.py").unlink()
    assert "--app" not in typed(command, "jobs", "ls").output
