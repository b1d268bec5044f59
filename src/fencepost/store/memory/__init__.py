"""The memory store: SQLite's plans on a database in the memory of this process, for tests."""
