"""The way in: apps, tasks and job handles, in a sync and an async face over the same scripts."""

from fencepost.app.app import App, AsyncApp
from fencepost.app.event import AsyncEventHandle, EventHandle, Sent
from fencepost.app.job import AsyncJobHandle, JobHandle
from fencepost.app.jobs import Page
from fencepost.app.task import AsyncTaskHandle, TaskHandle

__all__ = [
    "App",
    "AsyncApp",
    "AsyncEventHandle",
    "AsyncJobHandle",
    "AsyncTaskHandle",
    "EventHandle",
    "JobHandle",
    "Page",
    "Sent",
    "TaskHandle",
]
