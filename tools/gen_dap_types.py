"""Writes dap/protocol/types.py from the published schema of the Debug Adapter Protocol.

`python tools/gen_dap_types.py` writes it; --check only tests whether it is up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "tests" / "harness" / "debugProtocol.json"
TYPES = ROOT / "debug_server" / "opstep_server" / "dap" / "protocol" / "types.py"

Json = dict[str, Any]

HEADER = '''"""The protocol's types. Generated from its published schema by tools/gen_dap_types.py.

A request's arguments are `<Request>Arguments`; what is in a response's or an event's body is
`<Request>ResponseBody` and `<Name>EventBody`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired
'''

_SIMPLE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
    "array": "list[Any]",
}
# The session makes these itself.
_ENVELOPES = ("ProtocolMessage", "Request", "Response", "Event")


class Types:
    def __init__(self, definitions: Json) -> None:
        self._definitions = definitions
        self._texts: list[str] = []

    def text(self) -> str:
        for name, schema in self._definitions.items():
            if name in _ENVELOPES:
                continue
            if "allOf" in schema:
                self._composed(name, schema["allOf"])
            elif schema["type"] == "object":
                self._structure(name, schema)
            else:
                self._texts.append(_wrapped(f"{name} = {self._type(name, schema)}") + "\n")
        return HEADER + "\n\n" + "\n\n".join(self._texts)

    def _composed(self, name: str, parts: list[Json]) -> None:
        if not name.endswith(("Request", "Response", "Event")):
            bases = [self._type(name, part) for part in parts if "$ref" in part]
            self._structure(name, parts[-1], ", ".join(bases))
            return
        # Only the body of a response and of an event needs a name.
        for part in parts:
            body = part.get("properties", {}).get("body", {})
            if body.get("properties"):
                self._structure(f"{name}Body", body)

    def _structure(self, name: str, schema: Json, base: str = "TypedDict") -> None:
        required = schema.get("required", [])
        lines = []
        for field, part in schema.get("properties", {}).items():
            if field.startswith("__"):
                continue  # A class would mangle the name, and no code uses it.
            type = self._type(f"{name}{field[0].upper()}{field[1:]}", part)
            lines.append(f"{field}: {type if field in required else f'NotRequired[{type}]'}")
        if not lines:
            self._texts.append(f"{name} = dict[str, Any]\n")
            return
        body = "".join(_wrapped(f"    {line}") + "\n" for line in lines)
        self._texts.append(f"class {name}({base}):\n{body}")

    def _type(self, name: str, schema: Json) -> str:
        if "$ref" in schema:
            return str(schema["$ref"].rsplit("/", 1)[1])
        if "oneOf" in schema:
            return " | ".join(self._type(name, part) for part in schema["oneOf"])
        kind = schema["type"]
        if isinstance(kind, list):
            if len(kind) > 3:
                return "Any"
            return " | ".join(_SIMPLE[each] for each in kind)
        if "enum" in schema:
            return "Literal[" + ", ".join(f'"{value}"' for value in schema["enum"]) + "]"
        if kind == "array" and "items" in schema:
            return f"list[{self._type(name, schema['items'])}]"
        if kind == "object" and schema.get("properties"):
            self._structure(name, schema)
            return name
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"dict[str, {self._type(name, schema['additionalProperties'])}]"
        return _SIMPLE[kind]


def _wrapped(line: str) -> str:
    """The line; a too long one with each choice of its Literal on a separate line."""
    if len(line) <= 100:
        return line
    head, _, rest = line.partition("Literal[")
    indent = " " * (len(head) - len(head.lstrip()))
    choices = "".join(f"{indent}    {choice},\n" for choice in rest.rstrip("]").split(", "))
    return f"{head}Literal[\n{choices}{indent}]" + "]" * (rest.count("]") - 1)


def generate() -> str:
    """The module's text."""
    return Types(json.loads(SCHEMA.read_text())["definitions"]).text()


def main() -> int:
    text = generate()
    if "--check" in sys.argv[1:]:
        if TYPES.is_file() and TYPES.read_text() == text:
            return 0
        print(f"{TYPES.name} is out of date: run python tools/gen_dap_types.py")
        return 1
    TYPES.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
