"""Handles on tasks, jobs, flows, events and queues, each in a blocking and an awaited face."""
