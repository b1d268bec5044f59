"""The engine: connections, transactions, group commit, notification and the schema."""
