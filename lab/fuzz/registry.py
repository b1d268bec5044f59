"""Every parser that is fuzzed. A new one is a line here, or in one of the files named here."""

from __future__ import annotations

from lab.fuzz.cli_targets import CLI_TARGETS
from lab.fuzz.core_targets import CORE_TARGETS
from lab.fuzz.encryption_targets import ENCRYPTION_TARGETS
from lab.fuzz.http_targets import HTTP_TARGETS
from lab.fuzz.payload_targets import PAYLOAD_TARGETS
from lab.fuzz.store_targets import STORE_TARGETS
from lab.fuzz.target import Target
from lab.fuzz.webhook_targets import WEBHOOK_TARGETS
from lab.fuzz.wire_targets import WIRE_TARGETS

TARGETS: tuple[Target, ...] = (
    *CORE_TARGETS,
    *PAYLOAD_TARGETS,
    *ENCRYPTION_TARGETS,
    *STORE_TARGETS,
    *CLI_TARGETS,
    *WEBHOOK_TARGETS,
    *HTTP_TARGETS,
    *WIRE_TARGETS,
)
