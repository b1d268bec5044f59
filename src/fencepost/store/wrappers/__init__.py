"""Stores around a store: one counts and logs, one encrypts."""
