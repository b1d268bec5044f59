"""Slots of concurrency keys, and limits of types."""
