"""What the admin and its permissions hang on: a model without a table.

Jobs are read through the store, wherever that is. Django makes the permissions of a model when it
migrates; this one has no migration, and needs none.
"""

from __future__ import annotations

from django.db import models


class QueuedJob(models.Model):  # type: ignore[misc]  # Django declares no types
    """A job, as a name for permissions: view it, retry it, cancel it, replay it."""

    class Meta:
        managed = False
        default_permissions = ("view",)
        permissions = (
            ("retry_queuedjob", "Can retry jobs"),
            ("cancel_queuedjob", "Can cancel jobs"),
            ("replay_queuedjob", "Can replay dead letters"),
        )
        verbose_name = "job"
        verbose_name_plural = "jobs"
