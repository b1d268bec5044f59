"""The extension: made where tasks are declared, given its site where that is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from fencepost.app import App
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from flask import Flask

    from fencepost import Context
    from fencepost.actions.session import TracingMode
    from fencepost.clock import Clock
    from fencepost.core.encryption import Keys, Plain
    from fencepost.core.job.policy import Retry
    from fencepost.core.job.timeouts import Retention, Timeouts
    from fencepost.core.webhooks.callback import Webhooks
    from fencepost.store.interface.store import Store

URL_SETTING = "FENCEPOST_URL"
EXTENSION = "fencepost"


class AppSettings(TypedDict, total=False):
    """The settings of an app besides its URL."""

    name: str
    timeouts: Timeouts | None
    retry: Retry | None
    max_payload: int
    retention: Retention | None
    webhooks: Webhooks | None
    keys: Keys | None
    plain: str | Plain | None
    tracing: bool | TracingMode | None
    clock: Clock | None
    store: Store | None


class Fencepost(App):
    """An app whose handlers run in the application context of a Flask site.

    Give the site at once, or later to ``init_app``. Without *url*, the store is the site's setting
    ``FENCEPOST_URL``, else that of any app. The commands are ``flask fencepost …``.
    """

    def __init__(
        self, site: Flask | None = None, url: str | None = None, **settings: Unpack[AppSettings]
    ) -> None:
        super().__init__(url, **settings)
        self._is_url_chosen = url is not None or settings.get("store") is not None
        self.site: Flask | None = None
        """The site in whose context handlers run: the last that ``init_app`` was given."""
        self.around(self._in_context)
        if site is not None:
            self.init_app(site)

    def init_app(self, site: Flask) -> None:
        """Use the settings of *site*, run handlers in its context, and add commands to it."""
        from fencepost.flask.commands import commands_of

        url = site.config.get(URL_SETTING)
        if url and not self._is_url_chosen and url != self.url:
            self.url = url
            self.session.redirect(url)
        self.site = site
        site.extensions[EXTENSION] = self
        site.cli.add_command(commands_of(self))

    def _check_runnable(self) -> None:
        self._site()

    def close(self) -> None:
        """Close the store; if the app is used again, it is opened again."""
        self.session.disconnect()

    def _site(self) -> Flask:
        if self.site is None:
            raise ConfigurationError(
                "this Fencepost has no Flask site: run `flask --app … fencepost worker`, or call "
                "init_app(site) in the module that is imported"
            )
        return self.site

    def _in_context(self, _: Context, call: Callable[[], Any]) -> None:
        """Run an attempt in a context of its own, whose end closes what belongs to it."""
        with self._site().app_context():
            call()
