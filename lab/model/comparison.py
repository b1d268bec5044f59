"""One call on the model and on every store, and what differs between the answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, get_type_hints

import msgspec

from fencepost.errors import DuplicateJobError, FencepostError
from fencepost.store.interface.store import Facets, Store
from fencepost.store.plan import Operation, declaration_of
from fencepost.testing.clock import START
from lab.model import deliveries
from lab.model.calls import Call, Look
from lab.model.names import Names, renamed
from lab.model.normal_form import settled, settled_apart
from lab.model.reference import Reference
from lab.model.subjects import Subject
from lab.model.text import told
from lab.model.world import World

SHOWN_MAX = 12
"""How many of the differences between two answers are shown."""


FULL_EVERY = 8
"""One look in so many is at everything; so is the last."""


class Difference(AssertionError):
    """A store answered otherwise than the model."""


class Refusal(msgspec.Struct, frozen=True):
    """An operation that raised, as it is compared."""

    error: str
    details: tuple[str, ...] = ()


class Comparison:
    """The model and the stores, side by side, from one and the same beginning."""

    def __init__(self, subjects: Sequence[Subject], *, is_async: bool) -> None:
        self.model = Reference(START)
        self.subjects = subjects
        self._settled = settled_apart if any(each.is_spread for each in subjects) else settled
        self.history: list[str] = []
        self.is_broken = False
        """A call has not been answered as it should, or not yet."""
        self.looks = 0
        for subject in subjects:
            subject.reset(is_async=is_async)
        self.set_time(START)
        if is_async:
            self.history.append("(awaited)")

    # Time.

    @property
    def now(self) -> datetime:
        return self.model.now

    def set_time(self, now: datetime) -> None:
        self.model.now = now
        for subject in self.subjects:
            subject.clock.set(now)

    def advance(self, step: timedelta) -> None:
        self.history.append(f"# {step.total_seconds():.6f} s later")
        self.set_time(self.now + step)

    # Calls.

    def do(self, call: Call) -> Any:
        """Make *call* everywhere; return the model's answer, or raise Difference."""
        self.history.append(str(call))
        return self._everywhere(call)

    def look(self, job_ids: Sequence[str] = (), *, is_full: bool = False) -> None:
        """Compare all jobs, and in full everything; the jobs given are then seen from every side.

        A full look is many questions, so that most looks are not; see ``FULL_EVERY``.
        """
        self.looks += 1
        is_full = is_full or self.looks % FULL_EVERY == 0
        self._everywhere(Call("look", (list(job_ids), is_full)))

    def _everywhere(self, call: Call) -> Any:
        """Ask the stores that are far away first, and the others while those work."""
        self.is_broken = True
        far = [subject for subject in self.subjects if subject.aside is not None]
        asked = [
            (subject, subject.aside.submit(self._of_store, subject, call))
            for subject in far
            if subject.aside is not None
        ]
        near = [subject for subject in self.subjects if subject.aside is None]
        expected = self._of_model(call)
        answers = [(subject, self._of_store(subject, call)) for subject in near]
        answers += [(subject, future.result()) for subject, future in asked]
        for subject, answer in answers:
            self._compare(subject, call, expected, answer)
        self.is_broken = False
        return expected

    def _of_model(self, call: Call) -> Any:
        def ask(name: str, *args: Any, **kwargs: Any) -> Any:
            return getattr(self.model, name)(*args, **kwargs)

        return _answer(call, ask)

    def _of_store(self, subject: Subject, call: Call) -> Any:
        def ask(name: str, *args: Any, **kwargs: Any) -> Any:
            return subject.run(_operation(subject, subject.store, name, *args, **kwargs))

        return _answer(call, ask)

    def _compare(self, subject: Subject, call: Call, expected: Any, answered: Any) -> None:
        known = (*self.model.world.jobs, *self.model.world.events)
        if call.name != "look" or not subject.names.are_known(known):
            _learn(subject.names, expected, answered)
        answer = self._settled(call, renamed(answered, subject.names.name))
        wanted = self._settled(call, expected)
        if answer != wanted:
            raise self._difference(subject, call, wanted, answer)

    def _difference(self, subject: Subject, call: Call, expected: Any, answer: Any) -> Difference:
        found = list(differences(expected, answer))[:SHOWN_MAX]
        lines = [f"{subject.title} differs from the model in {call.name}:", *found]
        return Difference("\n  ".join(lines) + "\nafter:\n  " + "\n  ".join(self.history))

    def open_failures(self, call: Call) -> list[str]:
        """Return on whose account *call* would end jobs, if that is left open."""
        model, before, issued = self.model, self.model.world.copy(), self.model.issued
        model.begin_call()
        self._of_model(call)
        found = model.open_failures()
        model.world, model.issued = before, issued
        return found

    # Faults.

    def fail(self, call: Call) -> None:
        """Let *call* come to nothing everywhere: it fails before its commit."""
        self.is_broken = True  # until the look that follows
        self.history.append(f"# fails before its commit: {call}")
        for subject in self.subjects:
            operation = _call_operation(subject, subject.store, call)
            try:
                subject.fail(operation)
            except FencepostError as error:
                self._check_refused(subject, call, error)

    def _check_refused(self, subject: Subject, call: Call, error: FencepostError) -> None:
        """A call that raises by itself has come to nothing, if the model says so too."""
        before = self.model.world.copy()
        expected = self._of_model(call)
        self.model.world = before
        if not isinstance(expected, Refusal) or expected.error != type(error).__name__:
            raise self._difference(subject, call, expected, repr(error)) from error

    def lose(self, call: Call) -> None:
        """Make *call* everywhere, and hear no answer."""
        self.is_broken = True
        self.history.append(f"# its answer is lost: {call}")
        self._of_model(call)
        for subject in self.subjects:
            self._of_store(subject, call)

    def cut(self, call: Call, *, is_heard: bool) -> None:
        """Cut the wire of the stores that have one in mid-call; the others follow their fate."""
        self.is_broken = True
        self.history.append(f"# cut in mid-call ({'answer' if is_heard else 'request'}): {call}")
        before, issued = self.model.world, self.model.issued
        fates: dict[str, bool] = {}
        for subject in self.subjects:
            if subject.has_wire:
                self.model.world, self.model.issued = before.copy(), issued
                fates[subject.title] = self._cut(subject, call, is_heard=is_heard)
        is_done = any(fates.values()) if fates else is_heard
        self.history[-1] += " — done" if is_done else " — not done"
        # With the names again by which a store is known that did it.
        self.model.world, self.model.issued = before, issued
        if not is_done:
            return
        self._of_model(call)
        for subject in self.subjects:
            if not fates.get(subject.title, False):
                self._of_store(subject, call)

    def _cut(self, subject: Subject, call: Call, *, is_heard: bool) -> bool:
        def make(store: Store) -> Operation[Any]:
            return _call_operation(subject, store, call)

        try:
            fate = subject.lose(make, is_heard=is_heard)
        except FencepostError as error:
            self._check_refused(subject, call, error)
            return False
        return self._was_done(subject, call) if fate is None else fate

    def _was_done(self, subject: Subject, call: Call) -> bool:
        """Find out whether a store did *call*: it is as it was, or as it would be after it."""
        worlds: list[tuple[bool, World]] = [(False, self.model.world.copy())]
        self._of_model(call)
        worlds.append((True, self.model.world))
        look = Call("look", ([], True))
        complaints = []
        for is_done, world in worlds:
            self.model.world = world
            try:
                # The model's names for what is new are learnt only by the look that fits.
                self._compare(subject, look, self._of_model(look), self._of_store(subject, look))
            except Difference as difference:
                complaints.append(str(difference))
            else:
                return is_done
        raise Difference("\nand\n".join(["neither as before nor as after:", *complaints]))

    def reopen(self) -> None:
        self.history.append("# every store is closed, and opened again")
        for subject in self.subjects:
            subject.reopen()

    def tidy(self) -> None:
        """Let the stores that keep books keep them; nobody may see a difference."""
        self.history.append("# tidied")
        for subject in self.subjects:
            if subject.store.tidy_interval is not None:
                subject.run(subject.store.upkeep.tidy())


PLACES = {
    declaration_of(method).name: (facet, name)
    for facet, interface in get_type_hints(Facets).items()
    for name, method in interface.operations.items()
}
"""Facet and method by the name of an operation, by which the reference knows it."""


def _operation(
    subject: Subject, store: Store, name: str, *args: Any, **kwargs: Any
) -> Operation[Any]:
    """Return a store's operation, its arguments in that store's own names."""
    own = renamed(args, subject.names.own)
    facet, method = PLACES[name]
    operation: Operation[Any] = getattr(getattr(store, facet), method)(*own, **kwargs)
    return operation


def _call_operation(subject: Subject, store: Store, call: Call) -> Operation[Any]:
    atomic = {} if call.is_atomic is None else {"atomic": call.is_atomic}
    return _operation(subject, store, call.name, *call.arguments, **atomic)


def _learn(names: Names, expected: Any, answered: Any) -> None:
    if isinstance(expected, Look) and isinstance(answered, Look):
        deliveries.learn(names, expected, answered)
    else:
        names.learn(expected, answered)


def _answer(call: Call, ask: Any) -> Any:
    try:
        return call.ask(ask)
    except DuplicateJobError as error:
        return Refusal(type(error).__name__, (error.type, error.key, error.existing_id or ""))
    except FencepostError as error:
        return Refusal(type(error).__name__)


def differences(expected: Any, answer: Any, path: str = "answer") -> list[str]:
    """Return where two answers differ, in words."""
    if expected == answer:
        return []
    if type(expected) is type(answer) and isinstance(expected, msgspec.Struct):
        names = expected.__struct_fields__
        pairs = [
            (f"{path}.{name}", getattr(expected, name), getattr(answer, name)) for name in names
        ]
    elif isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        pairs = [
            (f"{path}[{index}]", one, other)
            for index, (one, other) in enumerate(zip(expected, answer, strict=True))
        ]
    elif isinstance(expected, list) and isinstance(answer, list):
        lacking = [f"{path}: lacks {told(each)}" for each in expected if each not in answer]
        return lacking + [
            f"{path}: has also {told(each)}" for each in answer if each not in expected
        ]
    else:
        return [f"{path}: the model says {told(expected)}, the store {told(answer)}"]
    return [text for where, one, other in pairs for text in differences(one, other, where)]
