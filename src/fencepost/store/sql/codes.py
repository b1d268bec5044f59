"""States, encodings and modes as the small integers that the table holds."""

from __future__ import annotations

from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.job import Encoding
from fencepost.core.job.lifecycle import State

# The partial indexes of the schema name these numbers; they never change.
BY_NUMBER = (
    State.PENDING,
    State.SCHEDULED,
    State.DELAYED,
    State.RUNNING,
    State.RETRYING,
    State.COMPLETED,
    State.FAILED,
    State.DEAD_LETTER,
    State.CANCELLED,
)
NUMBER = {state: number for number, state in enumerate(BY_NUMBER)}

PENDING = NUMBER[State.PENDING]
SCHEDULED = NUMBER[State.SCHEDULED]
RUNNING = NUMBER[State.RUNNING]

ENCODINGS = (Encoding.JSON, Encoding.BINARY, Encoding.ENCRYPTED)
ENCODING_NUMBER = {encoding: number for number, encoding in enumerate(ENCODINGS)}

MODES = (Mode.ALL, Mode.ANY, Mode.ENDED)
MODE_NUMBER = {mode: number for number, mode in enumerate(MODES)}
ENCRYPTED = ENCODING_NUMBER[Encoding.ENCRYPTED]
