"""What was said before the verb: which store, how much to log, how to show errors."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from fencepost.core.display import shown_url
from fencepost.errors import ConfigurationError
from fencepost.store.environment import DEFAULT_URL, url_from_environment

if TYPE_CHECKING:
    from fencepost.app import App


@dataclass
class Settings:
    """The global options, as given or from the environment."""

    url: str = DEFAULT_URL
    is_url_given: bool = False
    """True when --url was typed; it then wins over what an app says."""
    log_level: str | None = None
    log_json: bool = False
    debug: bool = False

    def say(self, *words: str) -> str:
        """Return a command to type next, for the same store; it shows no password."""
        start = ["fencepost"]
        if self.url != url_from_environment():
            start += ["--url", shown_url(self.url)]
        return shlex.join([*start, *words])

    @contextmanager
    def opened(self, *, must_exist: bool = True) -> Iterator[App]:
        """Open the store and close it again. Only looking at one does not create it."""
        from fencepost.app import App

        if must_exist:
            self._refuse_missing()
        with App(self.url) as app:
            yield app

    def _refuse_missing(self) -> None:
        path = sqlite_path(self.url)
        if path is not None and not path.exists():
            raise ConfigurationError(
                f"there is no database at {path}; submit a job first, or name another store with "
                f"--url or FENCEPOST_URL"
            )

    def configure_logging(self, *, default: str = "INFO") -> None:
        """Send log events to standard error as the options say."""
        from fencepost.observe.log import configure

        configure(level=self.log_level or default, as_json=self.log_json)


def sqlite_path(url: str) -> Path | None:
    """Return the file behind a SQLite URL; None for other stores and for what is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    name = unquote(parts.path).removeprefix("/")
    is_file = parts.scheme == "sqlite" and name and not parts.netloc and "\0" not in name
    return Path(name) if is_file else None
