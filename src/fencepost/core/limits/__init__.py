"""Limits: starts in a window, jobs of one key at a time, and fair turns between queues."""
