"""Handles on tasks, jobs, flows, events and queues, each in a sync and an async face."""
