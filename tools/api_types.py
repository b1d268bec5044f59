"""Write the TypeScript types of the dashboard from the OpenAPI document.

    python tools/api_types.py          # rewrites ui/src/api/types.ts
    python tools/api_types.py --check  # fails if that would change it

The result is checked in, so that building the dashboard needs Node alone.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from fencepost.http.openapi.document import document
from fencepost.http.routes import ROUTES

TARGET = Path(__file__).parent.parent / "ui" / "src" / "api" / "types.ts"
HEAD = "// Made from the OpenAPI document by `make ui-types`; do not edit.\n"
SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
NAME = re.compile(r"[A-Za-z_]\w*")


def written(schema: dict[str, Any]) -> str:
    """Return *schema* as a TypeScript type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(written(each) for each in schema[key]))
    return _typed(schema)


def _typed(schema: dict[str, Any]) -> str:
    match schema.get("type"):
        case list(kinds):
            return " | ".join(_typed({**schema, "type": kind}) for kind in kinds)
        case "null":
            return "null"
        case "array":
            if "prefixItems" in schema:
                return f"[{', '.join(written(each) for each in schema['prefixItems'])}]"
            return f"({written(schema.get('items') or {})})[]"
        case "object":
            return _object(schema)
        case str(kind):
            return SCALARS[kind]
    return "unknown"


def _object(schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        return f"Record<string, {written(values) if isinstance(values, dict) else 'unknown'}>"
    required = schema.get("required", ())
    fields = [
        f"{name if NAME.fullmatch(name) else json.dumps(name)}"
        f"{'' if name in required else '?'}: {written(each)};"
        for name, each in schema["properties"].items()
    ]
    return "{ " + " ".join(fields) + " }"


def types_text() -> str:
    """Return the content of the file."""
    schemas = document(ROUTES)["components"]["schemas"]
    made = [f"export type {name} = {written(schema)};\n" for name, schema in schemas.items()]
    return HEAD + "\n" + "\n".join(made)


def main() -> int:
    text = types_text()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
