"""Access: the tokens of the HTTP API, and the audit log."""
