"""Encryption: keys, and the form of an encrypted body."""
