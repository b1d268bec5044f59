"""Every option has a line in the docstring that an editor shows."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from fencepost import App, TaskHandle
from fencepost.actions import options
from fencepost.actions.options import UsingOptions
from fencepost.core.limits.type_limits import LimitOptions
from fencepost.handles.decorators import TaskDeclarer


def listed(text: str | None) -> list[str]:
    """Return the options that a docstring lists, each with what it does."""
    return re.findall(r"^ *- ``(\w+)``: \S.*$", text or "", re.MULTILINE)


def parameters(function: Callable[..., Any]) -> list[str]:
    named = inspect.signature(function).parameters.values()
    return [each.name for each in named if each.kind is each.KEYWORD_ONLY]


def test_every_option_of_a_task_has_a_line() -> None:
    options = [*parameters(TaskDeclarer.__call__), *LimitOptions.__annotations__]
    assert sorted(listed(TaskDeclarer.__call__.__doc__)) == sorted(options)


def test_a_misspelt_option_of_a_task_is_refused_with_the_right_one() -> None:
    options: dict[str, Any] = {"qeue": "mail"}
    with pytest.raises(TypeError, match="a task has no option 'qeue'; did you mean 'queue'"):
        App("memory://").task(**options)


def test_every_option_of_using_has_a_line_in_their_order() -> None:
    assert listed(TaskHandle.using.__doc__) == list(UsingOptions.__annotations__)


@pytest.mark.parametrize("name", ["SubmitOptions", "UsingOptions"])
def test_every_key_of_the_options_is_documented_where_it_is_declared(name: str) -> None:
    """Python keeps no docstrings of annotations; editors read them from the source."""
    module = ast.parse(inspect.getsource(options))
    (found,) = [each for each in module.body if getattr(each, "name", None) == name]
    assert isinstance(found, ast.ClassDef)
    for each, following in zip(found.body, [*found.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign):
            assert isinstance(following, ast.Expr), ast.unparse(each)
            assert isinstance(following.value, ast.Constant), ast.unparse(each)
