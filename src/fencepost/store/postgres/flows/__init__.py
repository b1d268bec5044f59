"""Flows: jobs that wait for others, and jobs that a running job spawns."""
