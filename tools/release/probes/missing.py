"""Prints what is said where an extra is missing, as JSON: a text for each extra."""

import importlib
import json
from collections.abc import Callable

from fencepost import App, Client

ATTEMPTS: dict[str, Callable[[], object]] = {
    "postgres": lambda: App("postgresql://db.example/shop").store,
    "redis": lambda: App("redis://cache.example").store,
    "encryption": lambda: App("memory://", keys=["k:" + "A" * 43 + "="]).store,
    "client": lambda: Client("http://127.0.0.1:9").jobs.get("0"),
    "otel": lambda: App("memory://", tracing=True),
    "fastapi": lambda: importlib.import_module("fencepost.fastapi"),
    "django": lambda: importlib.import_module("fencepost.django").app,
}

said = {}
for extra, attempt in ATTEMPTS.items():
    try:
        attempt()
        said[extra] = "nothing was wrong"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        said[extra] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
