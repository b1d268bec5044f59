"""The way in: apps, tasks and job handles, in a sync and an async face over the same scripts."""

from fencepost.app.app import App, AsyncApp
from fencepost.app.event import AsyncEventHandle, EventHandle, Sent
from fencepost.app.flows import AsyncFlow, AsyncFlowHandle, Flow, FlowHandle
from fencepost.app.job import AsyncJobHandle, JobHandle
from fencepost.app.jobs import Page
from fencepost.app.task import AsyncTaskHandle, TaskHandle

__all__ = [
    "App",
    "AsyncApp",
    "AsyncEventHandle",
    "AsyncFlow",
    "AsyncFlowHandle",
    "AsyncJobHandle",
    "AsyncTaskHandle",
    "EventHandle",
    "Flow",
    "FlowHandle",
    "JobHandle",
    "Page",
    "Sent",
    "TaskHandle",
]
