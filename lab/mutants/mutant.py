"""What a mutant is: a named bug, made by replacing text of the product that occurs exactly once."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Place(StrEnum):
    """What a mutant spoils, which decides the tests that are asked to notice."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    REDIS = "redis"
    WORKER = "worker"
    SERVER = "server"
    """The HTTP API, and what it works out; a store or a worker alone shows nothing of it."""


class Patch(msgspec.Struct, frozen=True):
    """Some text of a module, or of a file of SQL or Lua, and what stands there instead."""

    target: str
    """A module (``fencepost.store.sqlite.engine.lock``), or the files of one kind below a folder,
    one of which has the text (``fencepost.store.postgres.schema/*.sql``)."""
    old: str
    new: str

    @property
    def is_sql_file(self) -> bool:
        return self.target.endswith(".sql")

    @property
    def is_lua_file(self) -> bool:
        return self.target.endswith(".lua")


class Mutant(msgspec.Struct, frozen=True):
    """One planted bug."""

    name: str
    about: str
    place: Place
    patches: tuple[Patch, ...]
    tests: tuple[str, ...]
    """Classes of the conformance suite, or paths of other tests, in which it should show."""
