"""One small program for each queue: it prepares a store, submits to it, or works."""
