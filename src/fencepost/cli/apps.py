"""Finds the app that a user names as ``module:attribute``."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType
from typing import TYPE_CHECKING

from fencepost.core.bounds import SHOWN_LENGTH_MAX
from fencepost.core.display import did_you_mean, shown
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.cli.options import Settings

DEFAULT_MODULE = "app"


def find_app(name: str | None, settings: Settings) -> App:
    """Return the app called *name*, or the only one in ``app.py``; raise ConfigurationError.

    Within a framework's command, without a name, it is the framework's. A --url that was typed
    overrides the URL of the app.
    """
    app = settings.app if name is None and settings.app is not None else _load(name)
    if settings.is_url_given:
        point(app, settings.url)
    else:
        settings.url = app.url
    return app


def has_default_app() -> bool:
    """Return whether there is an ``app.py`` in this folder."""
    return os.path.isfile(f"{DEFAULT_MODULE}.py")


def store_app(settings: Settings) -> App:
    """Return an app without tasks on the store of the settings."""
    from fencepost.app import App

    app = App()
    point(app, settings.url)
    return app


def point(app: App, url: str) -> None:
    """Make *app* use another store from now on."""
    app.url = url
    app.session.redirect(url)


def _load(name: str | None) -> App:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    if name is None:
        if not has_default_app():
            raise ConfigurationError(
                f"no app was named and there is no app.py in {here}; name it as "
                f"module:attribute, such as `shop.tasks:app`"
            )
        name = DEFAULT_MODULE
    module_name, _, attribute = name.partition(":")
    module = _import(_checked(module_name, name))
    return _named(module, attribute) if attribute else _lone(module)


def _checked(module: str, name: str) -> str:
    if module.endswith(".py") or "/" in module:
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")[:SHOWN_LENGTH_MAX]
        raise ConfigurationError(f"{shown(name)} is a file; name its module: `{dotted}:app`")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ConfigurationError(f"{shown(name)} is not of the form module:attribute")
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"no module is called {shown(error.name)}, neither in {os.getcwd()} nor installed"
                f"{did_you_mean(error.name, _modules_here())}"
            ) from error
        raise _import_failed(name, error) from error
    except Exception as error:
        raise _import_failed(name, error) from error


def _modules_here() -> list[str]:
    """Return the names of modules and packages in this folder."""
    with os.scandir() as entries:
        names = [entry.name for entry in entries if entry.is_dir() or entry.name.endswith(".py")]
    return [name.removesuffix(".py") for name in names if name.removesuffix(".py").isidentifier()]


def _import_failed(name: str, error: Exception) -> ConfigurationError:
    """Return an error that names the line in the user's code; --debug shows the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    if isinstance(error, SyntaxError) and error.filename:
        where = f" at {error.filename}:{error.lineno}"
    else:
        where = f" at {inner[-1].filename}:{inner[-1].lineno}" if inner else ""
    return ConfigurationError(f"importing {name!r} failed{where}: {type(error).__name__}: {error}")


def _named(module: ModuleType, attribute: str) -> App:
    from fencepost.app import App

    value: object = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise ConfigurationError(
                f"module {module.__name__!r} has no {attribute!r}{_suggestion(module)}"
            ) from None
    if not isinstance(value, App):
        raise ConfigurationError(
            f"`{module.__name__}:{attribute}` is not an App but a {type(value).__name__}"
            f"{_suggestion(module)}"
        )
    return value


def _lone(module: ModuleType) -> App:
    from fencepost.app import App

    found = _apps_in(module)
    if isinstance(vars(module).get("app"), App):
        return found["app"]
    if len(set(map(id, found.values()))) == 1:
        return next(iter(found.values()))
    if not found:
        raise ConfigurationError(
            f"module {module.__name__!r} has no App; add `app = App()` to it, or name another "
            f"module as module:attribute"
        )
    raise ConfigurationError(
        f"module {module.__name__!r} has several apps: {', '.join(sorted(found))}; name one as "
        f"`{module.__name__}:{min(found)}`"
    )


def _apps_in(module: ModuleType) -> dict[str, App]:
    from fencepost.app import App

    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _suggestion(module: ModuleType) -> str:
    found = sorted(_apps_in(module))
    return f"; did you mean `{module.__name__}:{found[0]}`?" if found else "; it has no App"
