"""The way out: webhooks, delivered by a task that every app with secrets has."""

from fencepost.delivery.task import delivery_task

__all__ = ["delivery_task"]
