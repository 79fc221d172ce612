"""Write page/src/contract.ts: the questions and reports of the engine as TypeScript types, from its JSON Schema.

python tools/contract.py            write it
python tools/contract.py --check    exit 1 when it is not up to date
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "page/src/contract.ts"
HEAD = "// Generated from the engine's JSON Schema by tools/contract.py; do not edit. Numbers are SI base units.\n"
PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def kind(schema: dict[str, Any]) -> str:
    """TypeScript for one schema."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(kind(part) for part in schema[key]))
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    name = schema.get("type")
    if name == "array":
        items = kind(schema["items"]) if schema.get("items") else "unknown"
        return f"({items})[]" if "|" in items else f"{items}[]"
    if name == "object" and not schema.get("properties"):
        more = schema.get("additionalProperties")
        return f"Record<string, {kind(more) if isinstance(more, dict) and more else 'unknown'}>"
    if name == "object":
        return "{ " + " ".join(member(schema, key) for key in schema["properties"]) + " }"
    return PLAIN.get(str(name), "unknown")


def unit(schema: dict[str, Any]) -> str:
    """The x-unit of a schema or of what it may be, else nothing."""
    parts = [schema, *schema.get("anyOf", []), schema.get("items") or {}, schema.get("additionalProperties") or {}]
    return next((part["x-unit"] for part in parts if isinstance(part, dict) and "x-unit" in part), "")


def member(schema: dict[str, Any], key: str) -> str:
    """One member of an interface."""
    inner = schema["properties"][key]
    optional = "" if key in schema.get("required", []) or (inner.get("enum", [""])[1:] == [] and key == "kind") else "?"
    return f"{key}{optional}: {kind(inner)};"


def interface(name: str, schema: dict[str, Any]) -> list[str]:
    """An exported interface with its units as comments."""
    lines = [f"/** {schema['description']} */"] if "description" in schema else []
    lines.append(f"export interface {name} {{")
    for key, inner in schema.get("properties", {}).items():
        found = unit(inner)
        lines.append(f"  {member(schema, key)}" + (f" // {found}" if found else ""))
    return [*lines, "}", ""]


def document() -> str:
    """The whole file."""
    from rooflab import api

    schema = api.schema()
    definitions: dict[str, Any] = schema["$defs"]
    lines = [HEAD]
    for name, definition in definitions.items():
        lines += interface(name, definition)
    for name in ("ask", "report"):
        lines += [f"export type {name.capitalize()} = {kind(schema['properties'][name])};", ""]
    pairs = [(n.removesuffix("Ask"), n) for n in definitions if n.endswith("Ask")]
    rows = [
        f"  {definitions[ask]['properties']['kind']['enum'][0]}: {{ ask: {ask}; report: {stem}Report }};"
        for stem, ask in pairs
    ]
    lines += ["/** Which report answers which question. */", "export interface Kinds {", *rows, "}", ""]
    known = {
        definitions[ask]["properties"]["kind"]["enum"][0]: [
            name for name in definitions[ask]["properties"] if name != "kind"
        ]
        for _, ask in pairs
    }
    lines += ["/** The fields of each question. */"]
    lines += [f"export const FIELDS_OF: Record<keyof Kinds, readonly string[]> = {json.dumps(known, indent=2)};", ""]
    fields = definitions["EstimateAsk"]["properties"]
    defaults = {key: inner["default"] for key, inner in fields.items() if "default" in inner}
    lines += ["/** What an estimate's fields are when nothing is said. */"]
    lines += [f"export const DEFAULTS = {json.dumps(defaults, indent=2)} as const;", ""]
    return "\n".join(lines)


def main(args: list[str]) -> int:
    text = document()
    if args == ["--check"]:
        fresh = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        if not fresh:
            print("page/src/contract.ts is not up to date; run: python tools/contract.py")
        return 0 if fresh else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
