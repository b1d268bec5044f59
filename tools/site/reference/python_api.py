"""The reference of the Python API, made from docstrings and signatures."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterable
from typing import Any

import fencepost
import fencepost.errors
import fencepost.testing
import fencepost.webhooks
from fencepost import App
from tools.site.reference.docstrings import (
    below_fields,
    code,
    constructor,
    keywords,
    markdown,
    one_line,
    signature,
    type_name,
    types_of,
)

DECLARING = ("App", "TaskHandle", "EventHandle", "Client")
RUNNING = ("JobHandle", "FlowHandle", "SentEvent")
HANDLING = ("Context", "BatchJob", "FailedAttempt", "JobLogFilter")


def app_page() -> str:
    """Return the page of what callers hold: apps, tasks, jobs, and the parts of an app."""
    parts = {
        name: part
        for name, part in vars(App("memory://")).items()
        if type(part).__module__.startswith("fencepost.handles") and name != "task"
    }
    declare = vars(App("memory://"))["task"]
    return "\n".join(
        [
            "# Apps, tasks and jobs",
            "What a caller imports from `fencepost` and holds in its hands. Every method that asks"
            " the store is there a second time under `.aio`, awaited.\n",
            *(_class(getattr(fencepost, name)) for name in DECLARING[:1]),
            "### App.task\n",
            code("@app.task\n@app.task(…)"),
            _options(type(declare)),
            *(_class(getattr(fencepost, name)) for name in (*DECLARING[1:], *RUNNING)),
            *(_functions(fencepost, ("chain", "fan_out", "fan_in"))),
            *(_class(type(part), f"app.{name}") for name, part in parts.items()),
        ]
    )


def handler_page() -> str:
    """Return the page of what handlers, hooks and programs that run workers use."""
    worker = type(App("memory://").worker())
    return "\n".join(
        [
            "# In a handler",
            "What a handler, a hook or a program that runs a worker is given.\n",
            *(_class(getattr(fencepost, name)) for name in HANDLING),
            _class(worker, "app.worker()"),
            *_functions(fencepost.webhooks, ("verify",)),
        ]
    )


def values_page() -> str:
    """Return the page of the values that are passed in and given back."""
    others = {*DECLARING, *RUNNING, *HANDLING}
    kinds = [
        value
        for name in sorted(vars(fencepost)["__all__"])
        if isinstance(value := getattr(fencepost, name), type)
        and name not in others
        and not issubclass(value, BaseException)
    ]
    return "\n".join(
        [
            "# Values",
            "What is passed to an app, and what it gives back.\n",
            *map(_class, kinds),
        ]
    )


def errors_page() -> str:
    """Return the page of every exception, as the tree that they are."""
    lines = [
        "# Errors\n",
        "Each has a `code` that does not change, which is also the one of the HTTP API. What stands"
        " further in is a kind of what stands above it.\n",
    ]
    # An error with two names is one error.
    kinds = list(
        dict.fromkeys(
            kind
            for _, kind in inspect.getmembers(fencepost.errors, inspect.isclass)
            if kind.__module__.startswith("fencepost.errors") and issubclass(kind, BaseException)
        )
    )
    ours = set(kinds)
    roots = [kind for kind in kinds if not ours & set(kind.__mro__[1:])]
    for root in sorted(roots, key=lambda kind: (kind.__name__ != "FencepostError", kind.__name__)):
        lines += [f"## {root.__name__}\n", markdown(root.__doc__), ""]
        if children := sorted(_below(root, kinds)):
            lines += [
                "| error | code | when |",
                "| --- | --- | --- |",
                *(row for _, row in children),
            ]
        lines.append("")
    return "\n".join(lines)


def testing_page() -> str:
    """Return the page of ``fencepost.testing``."""
    module = fencepost.testing
    names = list(vars(module)["__all__"])
    kinds = [n for n in names if isinstance(getattr(module, n), type)]
    return "\n".join(
        [
            "# fencepost.testing",
            markdown(module.__doc__) + "\n",
            *_functions(module, [name for name in names if name not in kinds]),
            *(_class(getattr(module, name)) for name in kinds),
        ]
    )


def _below(root: type, kinds: list[type], path: str = "", depth: int = 0) -> list[tuple[str, str]]:
    rows = []
    for kind in kinds:
        if kind.__bases__[0] is root:
            key = f"{path}/{kind.__name__}"
            name = "&emsp;" * depth + f"`{kind.__name__}`"
            stable = getattr(kind, "code", "")
            shown = f"`{stable}`" if stable else "-"
            rows.append((key, f"| {name} | {shown} | {one_line(kind.__doc__)} |"))
            rows += _below(kind, kinds, key, depth + 1)
    return rows


def _functions(module: Any, names: Iterable[str]) -> list[str]:
    texts = []
    for name in names:
        value = getattr(module, name)
        call = value if inspect.isfunction(value) else type(value).__call__
        text = signature(name, call, is_method=call is not value)
        texts.append(f"## {name}\n\n{text}\n{markdown(value.__doc__ or call.__doc__)}\n")
    return texts


def _class(kind: type, title: str | None = None) -> str:
    lines = [f"## {title or kind.__name__}\n"]
    is_called = title is None and not issubclass(kind, (enum.Enum, BaseException))
    if is_called and not kind.__name__.endswith("Handle"):
        lines.append(constructor(kind))
    lines += [markdown(kind.__doc__) if kind.__doc__ else "", ""]
    if issubclass(kind, enum.Enum):
        lines += [", ".join(f"`{each.name}`" for each in kind) + ".\n"]
    else:
        lines += [_fields(kind), *_methods(kind, title or kind.__name__)]
    return "\n".join(lines)


def _fields(kind: type) -> str:
    texts = below_fields(kind)
    rows = [
        f"| `{name}` | {_code(of)} | {one_line(texts.get(name))} |"
        for name, of in types_of(kind).items()
    ]
    for name, value in inspect.getmembers(kind, lambda each: isinstance(each, property)):
        if not name.startswith("_") and value.fget is not None and name not in types_of(kind):
            of = inspect.signature(value.fget).return_annotation
            rows.append(f"| `{name}` | {_code(type_name(of))} | {one_line(value.__doc__)} |")
    if not rows:
        return ""
    return "\n".join(["| attribute | type | |", "| --- | --- | --- |", *rows, ""])


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _methods(kind: type, title: str) -> list[str]:
    texts = []
    for name, value in sorted(_members(kind).items()):
        is_bound = not isinstance(inspect.getattr_static(kind, name), staticmethod | classmethod)
        call = signature(name, value, is_method=is_bound)
        heading = f"### {title.removesuffix('()')}.{name}"
        texts.append(f"{heading}\n\n{call}\n{markdown(value.__doc__)}\n{keywords(value)}")
    return texts


def _members(kind: type) -> dict[str, Any]:
    """Return the public methods that were written here; not those of a struct or an exception."""
    return {
        name: value
        for name, value in inspect.getmembers(kind, inspect.isroutine)
        if not name.startswith("_")
        and getattr(value, "__module__", "").startswith("fencepost")
        and value.__doc__
    }


def _options(kind: type) -> str:
    """Return the options of a decorator, from its call; a guide has their meanings."""
    return (
        f"{markdown(kind.__doc__)}\n\n{signature('task', kind.__call__, is_method=True)}\n"
        f"{keywords(kind.__call__)}\n"
        "What each means: [tasks and submissions](../configuration.md#tasks-and-submissions).\n"
    )
