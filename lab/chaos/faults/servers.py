"""What happens to a PostgreSQL server."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg

from lab.chaos.entries import Killed
from lab.chaos.faults.fault import ONE, Fault, NotNow, Scene
from lab.chaos.redis_server import RedisStage
from lab.chaos.servers import CONNECTIONS_MAX, PostgresStage

SERVER = "server"
LOCKED_ROWS = 30

END_CLIENTS = """
select pg_terminate_backend(pid) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid() and not (pid = any (%s))
"""


def _servers(scene: Scene) -> PostgresStage:
    assert isinstance(scene.stage, PostgresStage)
    return scene.stage


def kill_server(scene: Scene) -> None:
    """Kill the server under load, and start it again."""
    if isinstance(scene.stage, RedisStage):
        scene.crew.note(Killed(scene.crew.now(), scene.stage.server.pid, SERVER))
        scene.stage.server.crash()
        scene.wait(0.0, 0.5)
        scene.stage.revive()
        return
    stage = _servers(scene)
    scene.crew.note(Killed(scene.crew.now(), stage.primary.pid, SERVER))
    stage.primary.crash()
    scene.wait(0.0, 0.5)
    stage.revive(stage.primary)


def failover(scene: Scene) -> None:
    """Lose the primary for good: the standby takes over."""
    stage = _servers(scene)
    if stage.standby is None:
        raise NotNow("there is no standby")
    if not stage.is_followed():
        raise NotNow("the standby was not in step")
    scene.crew.note(Killed(scene.crew.now(), stage.primary.pid, SERVER))
    stage.take_over()


def connections_exhausted(scene: Scene) -> None:
    """Take every connection that the server has to give, and end those of others."""
    stage = _servers(scene)
    with ExitStack() as held, stage.admin() as admin:
        ours: list[int] = []
        for _ in range(2):  # clients that are thrown out reconnect at once: be faster
            try:
                for _ in range(CONNECTIONS_MAX):
                    taken = held.enter_context(psycopg.connect(stage.own_url, connect_timeout=5))
                    ours.append(taken.info.backend_pid)
            except psycopg.OperationalError:
                pass
            admin.execute(END_CLIENTS, (ours,))
        scene.wait(0.5, scene.settings.ttl * 1.5)


def idle_in_transaction(scene: Scene) -> None:
    """Lock leases and waiting jobs, and do nothing."""
    with _servers(scene).admin() as zombie, zombie.transaction(force_rollback=True):
        zombie.execute("set local lock_timeout = '2s'")
        for table in ("leases", "ready", "delayed"):
            zombie.execute(
                f"select 1 from fencepost.{table} limit {LOCKED_ROWS} for update".encode()
            )
        scene.wait(0.5, scene.settings.ttl * 1.6)


def ended_sessions(scene: Scene) -> None:
    """End every session, as an administrator does."""
    with _servers(scene).admin() as admin:
        admin.execute(END_CLIENTS, ([],))


POSTGRES = ("postgres",)
SERVER_FAULTS = (
    Fault("kill_server", kill_server, ("postgres", "redis"), is_wide=True, layouts=ONE),
    Fault("failover", failover, POSTGRES, is_wide=True),
    Fault("connections_exhausted", connections_exhausted, POSTGRES, is_wide=True),
    Fault("idle_in_transaction", idle_in_transaction, POSTGRES, is_wide=True),
    Fault("ended_sessions", ended_sessions, POSTGRES, is_wide=True),
)
