"""PostgreSQL, a standby that has all that was acknowledged, and a bad network before them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from random import Random

import psycopg
from tests.servers.child import ServerFailedError
from tests.servers.postgres import PostgresServer

from lab.chaos.proxy import Proxy
from lab.chaos.settings import Settings
from lab.chaos.stage import Stage

DATABASE = "jobs"
CONNECTIONS_MAX = 150
SETTINGS = {
    "max_connections": str(CONNECTIONS_MAX),
    "max_wal_size": "256MB",
    "wal_keep_size": "512MB",  # or a standby that was away for a while could not catch up
    "wal_retrieve_retry_interval": "200ms",
    "wal_receiver_timeout": "5s",
}
WAIT = 30.0

FOLLOWED = """
select count(*) from pg_stat_replication
where state = 'streaming' and sync_state = 'sync' and flush_lsn >= %s::pg_lsn
"""

CHECK_INDEXES = """
select bt_index_check(c.oid, true) from pg_class c join pg_am a on a.oid = c.relam
where c.relnamespace = 'fencepost'::regnamespace and c.relkind = 'i' and a.amname = 'btree'
"""


class PostgresStage(Stage):
    """Two servers if one is to take over from the other, else one."""

    def __init__(self, settings: Settings, *, has_standby: bool) -> None:
        super().__init__(settings)
        if self.disk.is_mounted:
            tempfile.tempdir = str(self.disk.folder)  # where servers put their data
        self._rng = Random(f"{settings.seed} proxy")
        self.proxies = [Proxy(self.clock, self._rng) for _ in range(1 + has_standby)]
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies)
        self.url = f"postgresql://postgres@{hosts}/{DATABASE}?connect_timeout=3"
        self.primary = self._make(None)
        self.standby: PostgresServer | None = None
        self.source = f"PostgreSQL {self.primary.source}"
        self.primary.create_database(DATABASE)
        self.open().migrate()
        self.proxies[0].target = self.primary.port
        if has_standby:
            self.add_standby()

    @property
    def own_url(self) -> str:
        return self.primary.url(DATABASE)

    def admin(self) -> psycopg.Connection:
        """Return a connection of the superuser to the database, past the network."""
        return psycopg.connect(self.own_url, autocommit=True, connect_timeout=5)

    def _make(self, copy_of: PostgresServer | None) -> PostgresServer:
        server = PostgresServer(self.settings.source, copy_of=copy_of, settings=SETTINGS)
        try:
            server.start()
        except BaseException:
            server.close()
            raise
        return server

    # A second server.

    def add_standby(self) -> None:
        """Make a copy of the primary that follows it; from then on, commits wait for it."""
        self.standby = self._make(self.primary)
        free = next(proxy for proxy in self.proxies if proxy.target != self.primary.port)
        free.target = self.standby.port
        with self.admin() as admin:
            admin.execute("alter system set synchronous_standby_names = '*'")
            admin.execute("select pg_reload_conf()")
        assert self.is_followed(), "the standby did not catch up"

    def is_followed(self) -> bool:
        """Wait until the standby has all that the primary has; tell whether it does."""
        return self._eventually(self._looks_followed)

    def _looks_followed(self) -> bool:
        with self.admin() as admin:
            (here,) = admin.execute("select pg_current_wal_flush_lsn()").fetchone() or (None,)
            return admin.execute(FOLLOWED, (here,)).fetchone() == (1,)

    def take_over(self) -> None:
        """Lose the primary; its standby takes its place, and a new one is made."""
        assert self.standby is not None
        self.primary.crash()
        self.standby.promote()
        lost, self.primary, self.standby = self.primary, self.standby, None
        lost.close()
        self.add_standby()

    # Mending.

    def mend(self) -> None:
        for proxy in self.proxies:
            proxy.heal()
        self.disk.free()
        for server in filter(None, (self.primary, self.standby)):
            self.revive(server)

    def revive(self, server: PostgresServer) -> None:
        """Start a server again if it has given up."""
        if not self._answers(server):
            server.crash()
            for left in reversed(range(3)):
                try:
                    return server.start()
                except ServerFailedError:
                    if not left:
                        raise

    def _answers(self, server: PostgresServer) -> bool:
        def is_there() -> bool:
            psycopg.connect(server.url(), connect_timeout=2).close()
            return True

        return self._eventually(is_there, 3.0)

    def _eventually(self, look: Callable[[], bool], seconds: float = WAIT) -> bool:
        deadline = self.clock.monotonic() + seconds
        while self.clock.monotonic() < deadline:
            try:
                if look():
                    return True
            except psycopg.OperationalError:
                pass
            self.clock.sleep(0.05)
        return False

    def integrity(self) -> str:
        """Look for what a crash could have torn: an index that misses rows of its table."""
        with self.admin() as admin:
            try:
                admin.execute("create extension if not exists amcheck")
            except psycopg.Error:
                return "ok"  # without the tool there is nothing to find
            try:
                admin.execute(CHECK_INDEXES)
            except psycopg.Error as error:
                return str(error)
        return "ok"

    def close(self) -> None:
        for server in filter(None, (self.standby, self.primary)):
            server.close()
        for proxy in self.proxies:
            proxy.close()
        self.disk.close()
