"""The way in from afar: the jobs of a server, over HTTP, with the names of ``App``."""

from fencepost.client.client import AsyncClient, Client
from fencepost.client.events import AsyncEventHandle, EventHandle
from fencepost.client.flows import AsyncFlow, AsyncFlowHandle, Flow, FlowHandle
from fencepost.client.job import AsyncJobHandle, JobHandle
from fencepost.client.task import AsyncTaskHandle, TaskHandle

__all__ = [
    "AsyncClient",
    "AsyncEventHandle",
    "AsyncFlow",
    "AsyncFlowHandle",
    "AsyncJobHandle",
    "AsyncTaskHandle",
    "Client",
    "EventHandle",
    "Flow",
    "FlowHandle",
    "JobHandle",
    "TaskHandle",
]
