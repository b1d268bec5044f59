"""``fencepost server``: the HTTP API, for callers and workers in any language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.apps import find_app, store_app
from fencepost.cli.options import (
    LOOPBACK,
    Settings,
    app_argument,
    option,
    port_option,
    service_options,
    wait_option,
)
from fencepost.cli.output import echo
from fencepost.core.bounds import GRACE_DEFAULT
from fencepost.core.display import shown_url

if TYPE_CHECKING:
    from fencepost.app import App


@click.command()
@app_argument
@option(
    "--host",
    default=LOOPBACK,
    help="The address to listen on; other than loopback only once there is a token.",
)
@port_option("The port; 0 picks a free one.")
@wait_option("--grace", GRACE_DEFAULT, "How long requests may take to finish after SIGTERM.")
@wait_option(
    "--notice",
    0.0,
    "How long to accept requests after SIGTERM, while /health/ready already fails.",
)
@option("--no-maintenance", is_flag=True, help="Leave maintenance, crons and webhooks to workers.")
@option("--no-dashboard", is_flag=True, help="Serve the API alone.")
@option("--tls-cert", type=click.Path(dir_okay=False), help="Serve HTTPS with this certificate.")
@option(
    "--tls-key",
    type=click.Path(dir_okay=False),
    help="The key of the certificate, if it is in another file.",
)
@option(
    "--forwarded-allow-ips",
    metavar="ADDRESSES",
    help="Proxies whose X-Forwarded-For and -Proto are trusted, separated by commas.",
)
@service_options
def server(
    settings: Settings,
    /,
    app_name: str | None,
    host: str,
    port: int,
    no_maintenance: bool,
    no_dashboard: bool,
    **options: Any,
) -> None:
    """Serve the HTTP API of APP and its dashboard until stopped.

    APP is `module:attribute` (environment: FENCEPOST_APP); by default, `app` in app.py. Without an
    app, the store at --url is served: payloads are stored unchecked, and jobs get the default
    policy. SIGTERM or Ctrl-C lets requests finish within --grace; a second one stops at once.
    """
    from fencepost.http.origin import check_exposure, is_loopback
    from fencepost.http.server.server import Server, ServerOptions, check_tls, listen

    check_tls(options["tls_cert"], options["tls_key"])
    is_local = is_loopback(host)
    made = ServerOptions(
        has_maintenance=not no_maintenance,
        has_dashboard=not no_dashboard,
        is_local=is_local,
        **options,
    )
    has_app = settings.has_app(app_name)
    with find_app(app_name, settings) if has_app else store_app(settings) as app:
        settings.configure_logging()  # the app may have set up logging itself
        # On loopback the store is not read: a server may start while it is down.
        check_exposure(host, is_local or bool(app.tokens.list()))
        server = Server(app, listen(host, port), made)
        announce(settings, app, server.url, has_dashboard=made.has_dashboard)
        server.run()


def announce(settings: Settings, app: App, url: str, *, has_dashboard: bool) -> None:
    """Print where the API is; with --log-format json, the server logs it as an event."""
    if settings.logs_json:
        return
    types = ", ".join(sorted(app.session.tasks))
    known = f"types: {types}" if types else "no app: payloads are stored unchecked"
    echo(f"fencepost server on {url}, its routes at {url}/openapi.json", err=True)
    if has_dashboard:
        echo(f"  dashboard: {url}/", err=True)
    echo(f"  store: {shown_url(app.url)}", err=True)
    echo(f"  {known}", err=True)
