"""What the fuzzer holds against the document, besides its own checks: loaded by schemathesis.

Valid data is accepted. A schema has no words for a few rules, which are listed here with what the
server says when it refuses for one of them; a refusal for anything else is a hole in the document.
"""

from __future__ import annotations

import json
import re
from typing import Any

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData
from schemathesis.specs.openapi.checks import positive_data_acceptance

WITHOUT_WORDS = {
    "dependency_unknown": "",  # that there is such a job
    "invalid_duration": "must lie between",  # how long a text such as "10m" is
    "invalid_payload": "does not fit",  # what the task of a job takes
    "invalid_callback": "",  # what the server may call, and with which secret
}
"""By code, what the text of a refusal begins or goes on with."""
SAID = re.compile(
    r"is not a cursor|could never run|no such zone|needs a secret to sign|is longer than the app's"
)


@schemathesis.check
def valid_data_is_accepted(ctx: Any, response: Any, case: Any) -> None:
    """Let the fuzzer's own check judge, and look at why the server refused."""
    try:
        positive_data_acceptance(ctx, response, case)
    except RejectedPositiveData:
        if not _is_beyond_words(response):
            raise


def _is_beyond_words(response: Any) -> bool:
    try:
        problem = json.loads(response.content)
    except ValueError:
        return False
    code, detail = problem.get("code"), problem.get("detail", "")
    return (code in WITHOUT_WORDS and WITHOUT_WORDS[code] in detail) or bool(SAID.search(detail))
