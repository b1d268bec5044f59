"""``--metrics HOST:PORT`` of ``fencepost worker``: where a worker is watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fencepost.core.display import shown

if TYPE_CHECKING:
    from fencepost.app import App

    _AddressType = click.ParamType["ListenAddress"]
else:  # click before 8.2 has no type parameter
    _AddressType = click.ParamType

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535
PORT_DIGITS_MAX = 5


class ListenAddress(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class AddressType(_AddressType):
    """``HOST:PORT``, ``[HOST]:PORT``, or a port of this machine that only it can reach."""

    name = "[host:]port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ListenAddress:
        if isinstance(value, ListenAddress):
            return value
        host, _, port = str(value).rpartition(":")
        is_number = port.isascii() and port.isdecimal() and len(port) <= PORT_DIGITS_MAX
        if not is_number or int(port) > PORT_MAX:
            self.fail(f"{shown(value)} is not of the form PORT or HOST:PORT", param, ctx)
        return ListenAddress(host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port))


ADDRESS = AddressType()


def check_ports(address: ListenAddress | None, processes: int) -> None:
    """Refuse a first port behind which there is not one for every process."""
    if address is not None and processes > 1:
        if address.port == 0:
            raise click.BadParameter("several processes need a first port", param_hint="--metrics")
        if address.port + processes - 1 > PORT_MAX:
            raise click.BadParameter(
                f"{processes} processes need ports up to {address.port + processes - 1}",
                param_hint="--metrics",
            )


@contextmanager
def monitored(app: App, address: ListenAddress | None) -> Iterator[None]:
    """Serve metrics and health of this process's worker, also while it drains."""
    if address is None:
        yield
        return
    from fencepost.actions.metrics import read_metrics
    from fencepost.observe import families, names
    from fencepost.observe.exposition import gauge
    from fencepost.observe.log import log
    from fencepost.worker.monitor.health import WorkerHealth
    from fencepost.worker.monitor.server import Monitor, pages

    session = app.session
    health = WorkerHealth(session.counters.pulse, session.clock)

    def metrics() -> bytes:
        live = gauge(families.LIVE, {(): health.live().is_ok})
        ready = gauge(families.READY, {(): health.ready().is_ok})
        return read_metrics(session, [live, ready])

    monitor = Monitor(*address, pages(health.live, health.ready, metrics))
    log(names.METRICS_SERVED, address=monitor.address)
    try:
        yield
    finally:
        monitor.close()
