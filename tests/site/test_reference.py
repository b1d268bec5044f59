"""The pages that are made from the code have all of it."""

from __future__ import annotations

import re
from functools import cache

import click
import pytest

import fencepost
from fencepost.cli.main import COMMANDS, cli
from fencepost.http.routes import ROUTES
from fencepost.observe import names
from fencepost.observe.metrics import FAMILIES
from tools.site.reference import REFERENCE


@cache
def page(name: str) -> str:
    return REFERENCE[f"reference/{name}.md"]()


@pytest.mark.parametrize("name", vars(fencepost)["__all__"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    text = "\n".join(page(each) for each in ("app", "handlers", "values", "errors"))
    assert re.search(rf"^(?:## {name}$|\| (?:&emsp;)*`{name}` \|)", text, re.MULTILINE)


def test_every_command_and_option_is_in_the_reference() -> None:
    text = page("command-line")
    ctx = click.Context(cli, info_name="fencepost")
    for name in COMMANDS:
        command = cli.get_command(ctx, name)
        assert command is not None
        assert f"## fencepost {name}\n" in text
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert max(parameter.opts, key=len) in text


def test_every_route_is_in_the_reference() -> None:
    missing = [r for r in ROUTES if f"### `{r.method} {r.path}`" not in page("http-api")]
    assert missing == []


def test_every_link_of_the_http_reference_leads_to_a_shape() -> None:
    headings = {name.lower() for name in re.findall(r"^### (\w+)$", page("http-api"), re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", page("http-api"))) <= headings


def test_every_metric_and_every_log_event_is_in_the_reference() -> None:
    assert [f.name for f in FAMILIES if f"| `{f.name}` |" not in page("metrics")] == []
    known = {value for name, value in vars(names).items() if name.isupper()}
    assert set(re.findall(r"^\| `([\w.]+)` \|", page("log-events"), re.MULTILINE)) == known


def test_the_reference_says_nothing_to_tests_alone() -> None:
    """Docstrings cite requirements, which readers of the site do not have."""
    marks = re.compile(r"\((?:[CS]\d+(?:-\d+)?(?:, )?)+\)")
    assert [name for name in REFERENCE if marks.search(REFERENCE[name]())] == []
