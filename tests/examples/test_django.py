"""The Django project in `examples/django`, started and used as its users do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers.child import free_port

FOLDER = Path(__file__).parent.parent.parent / "examples" / "django"
PATIENCE = 60.0


class Shop:
    """The project with a database of its own."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FENCEPOST_")} | {
            "DATABASE_URL": database_url,
            "SHOP_SQLITE": str(folder / "shop.sqlite3"),
            "PYTHONUNBUFFERED": "1",
        }
        self.log = folder / "log"
        self.port = free_port()

    def manage(self, *words: str) -> str:
        """Run a command of `manage.py` to its end."""
        done = self.try_to_manage(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def try_to_manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `manage.py` that may fail."""
        return subprocess.run(
            self._command(*words),
            cwd=FOLDER.parent,  # not the project's folder: nothing may depend on that
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command until the block ends."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._command(*words), cwd=FOLDER.parent, env=self.env, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, str(FOLDER / "manage.py"), *words]

    def ask(self, path: str, **data: str) -> Any:
        """Return the answer of the server, for which it waits if it is not there yet."""
        body = urllib.parse.urlencode(data).encode() if data else None
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", body) as reply:
                    return json.load(reply)
            except urllib.error.HTTPError:
                raise
            except OSError:
                assert time.monotonic() < end, self.log.read_text()
                time.sleep(0.1)

    def until(self, path: str, name: str, value: object) -> Any:
        """Ask until the answer has this value."""
        end = time.monotonic() + PATIENCE
        while (answer := self.ask(path))[name] != value:
            assert time.monotonic() < end, f"{answer}\n{self.log.read_text()}"
            time.sleep(0.1)
        return answer


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    return Shop(tmp_path, url)


def test_an_order_over_http_is_worked_off_by_workers(shop: Shop) -> None:
    shop.manage("migrate", "--verbosity", "0")
    serve = ("runserver", "--noreload", str(shop.port))
    with shop.running(*serve), shop.running("fencepost", "worker", "--processes", "2"):
        order = shop.ask("/orders/", item="tea")
        receipt = shop.until(f"/receipts/{order['receipt']}/", "status", "SUCCESSFUL")
        assert receipt["receipt"] == "receipt for tea"
        shop.until(f"/orders/{order['id']}/", "is_shipped", True)
        # In a child process the module of its handler begins with an import of Django's models.
        label = shop.manage("fencepost", "submit", "print_label", '{"order_id": 77}', "--wait")
        assert "no order 77" in label
    assert "Traceback" not in shop.log.read_text()


def test_the_tests_of_the_project_pass(shop: Shop) -> None:
    """What `docs/django.md` says about TestCase and TransactionTestCase."""
    shop.manage("test", "--noinput", "-v", "0")


@pytest.mark.parametrize(
    ("mistake", "id"),
    [
        ("FENCEPOST = {'Databse': 'default'}", "fencepost.E003"),
        ("FENCEPOST = {'OPTIONS': {'retry': 3}}", "fencepost.E003"),
        ("TASKS['default']['QUEUES'].append('x' * 1_000)", "fencepost.E002"),
    ],
)
def test_check_names_a_mistake_although_views_import_tasks(
    tmp_path: Path, mistake: str, id: str
) -> None:
    (tmp_path / "mistaken.py").write_text(f"from shop.settings import *\n{mistake}\n")
    shop = Shop(tmp_path, "")
    shop.env |= {"DJANGO_SETTINGS_MODULE": "mistaken", "PYTHONPATH": str(tmp_path)}
    done = shop.try_to_manage("check")
    assert (done.returncode, id in done.stderr, "Traceback" in done.stderr) == (1, True, False)
