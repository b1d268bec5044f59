"""One sequence, many stores: each gives its own ids and tokens to what the model calls by name.

The model's ids and tokens are the names. A store's own are learnt from the first answer in which
one stands where the model's answer has a name that the store has not been heard of yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import TokenRecord
from fencepost.core.job.job import (
    Attempt,
    Body,
    DeadLetter,
    Dependency,
    Failure,
    Job,
    JobRecord,
    NewJob,
)
from fencepost.core.job.why import Situation
from fencepost.core.stats.statistics import EndedJob
from fencepost.core.webhooks.delivery import DELIVERY_TYPE, Delivery
from fencepost.store.interface.queue import Moved
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.crons import CronDefinition, CronView
from fencepost.store.interface.records.overview import QueueView, TypeView

Rename = Callable[[str], str]


def renamed(value: Any, rename: Rename) -> Any:
    """Return *value* with every text in it renamed."""
    if isinstance(value, str):
        return rename(value) if type(value) is str else value
    if isinstance(value, msgspec.Struct):
        return _renamed_struct(value, rename)
    if isinstance(value, (list, tuple)):
        return type(value)([renamed(each, rename) for each in value])
    return value


# Where names can stand in the values that come by the thousand; elsewhere every field is looked at.
NAMED_FIELDS: dict[type, tuple[str, ...]] = {
    Job: ("id", "replay_of", "correlation_id", "failure"),
    Failure: ("failed_dependency",),
    Dependency: ("job_id",),
    Attempt: ("id", "job_id", "previous_id"),
    JobRecord: ("job", "attempts", "dependencies"),
    Situation: ("job", "dependencies"),
    DeadLetter: ("job_id", "failure"),
    NewJob: ("after",),
    QueueView: (),
    TypeView: (),
    WorkerInfo: (),
    CronView: (),
    CronDefinition: (),
    EndedJob: ("id",),
    TokenRecord: (),
    Action: (),
}


def _renamed_struct(value: msgspec.Struct, rename: Rename) -> msgspec.Struct:
    changes = {}
    for name in NAMED_FIELDS.get(type(value), value.__struct_fields__):
        old = getattr(value, name)
        if old is None or isinstance(old, (int, float, bytes)):
            continue
        new = renamed(old, rename)
        if new is not old and new != old:
            changes[name] = new
    if isinstance(value, Failure) and value.failed_dependency and changes:
        changes["message"] = value.message.replace(
            value.failed_dependency, changes["failed_dependency"]
        )
    if isinstance(value, Job) and value.type == DELIVERY_TYPE:
        changes["payload_body"] = _renamed_delivery(value.payload_body, rename)
    return msgspec.structs.replace(value, **changes) if changes else value


def _renamed_delivery(payload: Body, rename: Rename) -> Body:
    """Return what a delivery says as the model would write it: every engine spaces JSON its way."""
    try:
        delivery = msgspec.json.decode(payload.data, type=Delivery)
    except msgspec.DecodeError:  # its payload was edited
        return payload
    renamed_one = msgspec.structs.replace(delivery, job_id=rename(delivery.job_id))
    return msgspec.structs.replace(payload, data=msgspec.json.encode(renamed_one))


class Names:
    """A store's ids and tokens by the model's name, and back."""

    def __init__(self) -> None:
        self._own: dict[str, str] = {}
        self._name: dict[str, str] = {}

    def are_known(self, names: Iterable[str]) -> bool:
        """Tell whether the store has been heard of all of *names*."""
        return all(name in self._own for name in names)

    def own(self, name: str) -> str:
        """Return what the store calls *name*; other text is meant as it is."""
        known = self._own.get(name)
        if known is not None:
            return known
        lowered = self._own.get(name.lower())
        if lowered is not None:
            return lowered.upper()
        return self._of_attempt(name, self._own)

    def name(self, own: str) -> str:
        """Return the model's name for what the store calls *own*; other text is left as it is."""
        known = self._name.get(own) or self._name.get(own.lower())
        return known if known is not None else self._of_attempt(own, self._name)

    def learn(self, expected: Any, answered: Any) -> None:
        """Learn names from an answer that ought to be equal to the model's."""
        if type(expected) is not type(answered) or _is_new_delivery(expected):
            return
        if isinstance(expected, str):
            if expected.startswith(NAMED) and "." not in expected and len(answered) >= OWN_LENGTH:
                self._learn(expected, answered)
        elif isinstance(expected, msgspec.Struct):
            kind = type(expected)
            for field in NAMED_FIELDS.get(kind, expected.__struct_fields__):
                self.learn(getattr(expected, field), getattr(answered, field))
        elif isinstance(expected, (list, tuple)):
            for one, other in zip(expected, answered, strict=False):
                self.learn(one, other)

    def _learn(self, name: str, own: str) -> None:
        if name not in self._own and own not in self._name:
            self._own[name] = own
            self._name[own] = name

    @staticmethod
    def _of_attempt(text: str, known: dict[str, str]) -> str:
        """Return the id of an attempt, which is a job's with a number behind it, renamed."""
        job_id, dot, number = text.rpartition(".")
        return f"{known[job_id]}.{number}" if dot and job_id in known else text


def _is_new_delivery(value: Any) -> bool:
    """Tell whether *value* is a move alone of a delivery, which does not tell it from others."""
    return isinstance(value, Moved) and value.type == DELIVERY_TYPE


NAMED = ("abcdef00-0000-4000-8000-", "token ")
"""How the model's names begin."""
OWN_LENGTH = 16
"""No id or token of a store is shorter."""
