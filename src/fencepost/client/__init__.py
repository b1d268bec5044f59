"""The jobs of a server, over HTTP, with the methods of ``App``."""

from fencepost.client.client import AsyncClient, Client
from fencepost.client.client import AsyncRemoteEventHandle as AsyncEventHandle
from fencepost.client.client import AsyncRemoteTaskHandle as AsyncTaskHandle
from fencepost.client.client import RemoteEventHandle as EventHandle
from fencepost.client.client import RemoteTaskHandle as TaskHandle
from fencepost.handles.flows import AsyncFlow, AsyncFlowHandle, Flow, FlowHandle
from fencepost.handles.job import AsyncJobHandle, JobHandle

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
