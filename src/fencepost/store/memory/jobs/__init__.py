"""JobTable: stored, claimed, settled, read, and changed by operators."""
