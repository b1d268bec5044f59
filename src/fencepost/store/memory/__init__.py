"""The memory store: the whole contract, kept in one process and lost with it. For tests only."""
