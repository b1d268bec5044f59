"""The HTTP API as one ASGI application: submit, work and watch from any language."""

from fencepost.http.api import asgi

__all__ = ["asgi"]
