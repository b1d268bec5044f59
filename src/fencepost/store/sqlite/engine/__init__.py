"""The engine: the file, its lock, its log, transactions and notification."""
