"""The fixtures that pytest finds by itself, in runs of pytest of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from tests.documentation import ROOT

pytest_plugins = ["pytester"]

PLUGIN = "fencepost.testing.plugin"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a project whose app stands on a durable store, as real ones do."""
    # A file of settings of its own, so that pytest looks for none in the folders above.
    pytester.makeini("[pytest]")
    pytester.makepyfile(
        shop="""
        from fencepost import App, Context, TemporaryError

        app = App("sqlite:///shop.db")

        @app.task
        def notify(order: int) -> None: ...

        @app.task
        def pay(order: int, ctx: Context) -> int:
            if ctx.attempt == 1:
                raise TemporaryError("the bank is busy")
            notify.submit(order)
            return order

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"
        """
    )
    return pytester


def run(pytester: pytest.Pytester, *arguments: str, is_apart: bool = False) -> pytest.RunResult:
    """Run pytest, apart if asked, with the plugin named unless it is installed."""
    named = [] if is_installed() else ["-p", PLUGIN]
    options = ["asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function"]
    every = [*named, "-p", "no:cacheprovider", *(f"-o{option}" for option in options), *arguments]
    if is_apart:
        return pytester.runpytest_subprocess(*every, timeout=60)
    return pytester.runpytest_inprocess(*every)


def is_installed() -> bool:
    from importlib import metadata

    return any(entry.value == PLUGIN for entry in metadata.entry_points(group="pytest11"))


def test_the_plugin_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["entry-points"]["pytest11"] == {"fencepost": PLUGIN}


def test_the_fixtures_run_a_job_of_an_app_made_in_the_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_it(fencepost_app, fencepost_drain, fencepost_clock):
            @fencepost_app.task
            def double(n: int) -> int:
                return 2 * n

            start = fencepost_clock.now()
            job = double.using(delay="1h").submit(21)
            assert fencepost_drain() == []
            assert [r.result for r in fencepost_drain(advance="all")] == [42]
            assert job.result() == 42
            assert (fencepost_clock.now() - start).total_seconds() == 3600

        async def test_it_async(fencepost_app, fencepost_drain):
            @fencepost_app.task
            async def double(n: int) -> int:
                return 2 * n

            await double.aio.submit(21)
            assert [r.result for r in await fencepost_drain.aio()] == [42]
        """
    )
    run(project, is_apart=True).assert_outcomes(passed=2)


def test_an_app_of_the_project_is_put_on_memory_for_each_test(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest
        import shop

        @pytest.fixture
        def fencepost_app(fencepost_memory):
            return fencepost_memory(shop.app)
        """
    )
    project.makepyfile(
        """
        import pytest
        from fencepost import TemporaryError
        from fencepost.testing import submitted
        import shop

        def test_it(fencepost_app, fencepost_drain):
            assert fencepost_app is shop.app
            job = shop.pay.submit(7)
            ran = fencepost_drain(advance="all")
            assert [r.type for r in ran] == ["pay", "pay", "notify"]
            assert job.result() == 7
            assert submitted(shop.notify) == [{"order": 7}]

        def test_each_begins_with_nothing(fencepost_app):
            assert fencepost_app.jobs.count() == 0

        def test_failures_can_be_raised(fencepost_app, fencepost_drain):
            shop.pay.submit(1)
            with pytest.raises(TemporaryError, match="busy"):
                fencepost_drain(raises=True)
        """
    )
    run(project).assert_outcomes(passed=3)
    assert not list(project.path.glob("shop.db*"))


def test_a_failed_check_shows_the_report_and_none_of_our_frames(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from fencepost.testing import check_idempotent
        import shop

        def test_it():
            check_idempotent(shop.pay, 7)
        """
    )
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*NotIdempotentError: pay(7) is not idempotent*",
            "*submit notify(order=7) happened 2 times instead of 1 when it crashed*",
            "*after submit at shop.py:12  notify.submit(order)*",
        ]
    )
    assert "check.py" not in result.stdout.str()


def test_help_tells_of_the_fixtures(project: pytest.Pytester) -> None:
    shown = run(project, "--fixtures", "-q").stdout.str()
    for name in ("fencepost_app", "fencepost_clock", "fencepost_drain", "fencepost_memory"):
        assert name in shown


def test_a_run_that_uses_no_fixture_loads_next_to_nothing(tmp_path: Path) -> None:
    """The plugin is imported wherever Fencepost is installed, by people who test other things."""
    code = f"""
        import json, sys
        import pytest
        before = set(sys.modules)
        import {PLUGIN}
        print(json.dumps(sorted(set(sys.modules) - before)))
    """
    loaded = printed(code, tmp_path)
    assert set(loaded) == {"fencepost", "fencepost.testing", PLUGIN}


def test_nothing_but_the_plugin_needs_pytest(tmp_path: Path) -> None:
    code = """
        import json, sys
        import fencepost.testing as testing
        for name in testing.__all__:
            getattr(testing, name)
        print(json.dumps([name for name in sys.modules if "pytest" in name]))
    """
    assert printed(code, tmp_path) == []


def printed(code: str, folder: Path) -> list[str]:
    """Run *code* in a fresh interpreter and return the list it prints."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    found: list[str] = json.loads(done.stdout)
    return found


def test_every_name_is_there_and_listed() -> None:
    import fencepost.testing as testing

    public = vars(testing)["__all__"]
    assert "drain" in public
    assert set(public) <= set(dir(testing))
    assert all(hasattr(testing, name) for name in public)
    missing = "nothing"
    with pytest.raises(AttributeError, match=missing):
        getattr(testing, missing)
