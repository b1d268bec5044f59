"""Limits: concurrency keys and rates."""
