"""``fencepost server``: the HTTP API, for callers and workers in any language."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fencepost.cli.apps import find_app, has_default_app, point
from fencepost.cli.lines import echo
from fencepost.cli.options import DURATION, log_options, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.bounds import GRACE_DEFAULT
from fencepost.core.display import shown_url

if TYPE_CHECKING:
    from fencepost.app import App

PORT_MAX = 65_535
PORT_DEFAULT = 8000


@click.command()
@click.argument("app_name", metavar="[APP]", required=False, envvar="FENCEPOST_APP")
@option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; beyond this machine, only once there is a token.",
)
@option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=PORT_DEFAULT,
    show_default=True,
    help="On which port; 0 is any that is free.",
)
@option(
    "--grace",
    type=DURATION,
    default=GRACE_DEFAULT,
    show_default="30s",
    help="How long requests may finish after SIGTERM.",
)
@option(
    "--notice",
    type=DURATION,
    default=0.0,
    show_default="0s",
    help="How long to go on after SIGTERM, with /health/ready saying no, before refusing any.",
)
@option(
    "--no-maintenance",
    is_flag=True,
    help="Leave promoting, expiring, recovering, pruning, crons and webhooks to workers.",
)
@option("--tls-cert", type=click.Path(dir_okay=False), help="Serve HTTPS with this certificate.")
@option("--tls-key", type=click.Path(dir_okay=False), help="Its key, if that is another file.")
@option(
    "--forwarded-allow-ips",
    metavar="ADDRESSES",
    help="Proxies whose X-Forwarded-For and -Proto are believed, with commas between them.",
)
@url_option
@log_options
@pass_settings
def server(
    settings: Settings,
    /,
    app_name: str | None,
    host: str,
    port: int,
    grace: float,
    notice: float,
    no_maintenance: bool,
    tls_cert: str | None,
    tls_key: str | None,
    forwarded_allow_ips: str | None,
) -> None:
    """Serve the HTTP API of APP until stopped.

    APP is `module:attribute` (environment: FENCEPOST_APP); an `app` in app.py need not be named.
    Without any, the store at --url is served: payloads are then stored unchecked, and jobs get the
    default policy. SIGTERM or Ctrl-C lets requests finish within --grace; a second one stops at
    once.
    """
    from fencepost.http.auth.anonymous import is_loopback
    from fencepost.http.server.server import Server, ServerOptions, check_tls
    from fencepost.http.server.socket import listen

    settings.configure_logging()
    check_tls(tls_cert, tls_key)
    options = ServerOptions(
        grace=grace,
        notice=notice,
        has_maintenance=not no_maintenance,
        is_local=is_loopback(host),
        tls_cert=tls_cert,
        tls_key=tls_key,
        forwarded_allow_ips=forwarded_allow_ips,
    )
    with app_for(settings, app_name) as app:
        _check_exposure(app, host)
        made = Server(app, listen(host, port), options)
        announce(settings, app, made.url)
        made.run()


def app_for(settings: Settings, app_name: str | None) -> App:
    """Return the app that is named, or found; without either, one that knows only the store."""
    from fencepost.app import App

    if app_name is not None or has_default_app():
        return find_app(app_name, settings)
    app = App()
    point(app, settings.url)
    return app


def _check_exposure(app: App, host: str) -> None:
    from fencepost.http.auth.anonymous import check_exposure, is_loopback

    # Not asked on loopback: a server may start while its store is away.
    check_exposure(host, is_loopback(host) or bool(app.tokens.list()))


def announce(settings: Settings, app: App, url: str) -> None:
    """Say where the API is; with --log-json, the event that the server logs says it."""
    if settings.log_json:
        return
    types = ", ".join(sorted(app.session.tasks))
    known = f"types: {types}" if types else "no app: payloads are stored unchecked"
    echo(f"fencepost server on {url}, its routes at {url}/openapi.json", err=True)
    echo(f"  store: {shown_url(app.url)}", err=True)
    echo(f"  {known}", err=True)
