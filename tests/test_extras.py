"""Where an extra is not installed, what needs it says how to install it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Flask is not among them: nobody without it has a site for `Fencepost.init_app`.
FRAMEWORKS = {
    "fastapi": "import fencepost.fastapi",
    "django": "from fencepost.django import app",
}

HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise ModuleNotFoundError("No module named " + name, name=name)

sys.meta_path.insert(0, Hidden())
"""


def error_of(program: str) -> str:
    """Return the last line of what a Python says that runs *program*."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stdout
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_a_framework_that_is_missing_is_named_with_its_extra(extra: str) -> None:
    said = error_of(HIDE.format(name=extra) + FRAMEWORKS[extra])
    assert said.startswith("ModuleNotFoundError: ")
    assert f"pip install 'fencepost[{extra}]'" in said


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_another_module_that_is_missing_is_not_taken_for_it(extra: str) -> None:
    said = error_of(HIDE.format(name="msgspec") + FRAMEWORKS[extra])
    assert "msgspec" in said
    assert "fencepost[" not in said


def test_the_tools_for_tests_need_no_pytest() -> None:
    program = HIDE.format(name="pytest") + "from fencepost.testing import drain"
    done = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert done.returncode == 0
