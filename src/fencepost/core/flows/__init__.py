"""Flows: graphs of jobs that wait for each other, and jobs that a running job spawns."""
