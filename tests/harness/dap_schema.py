"""Checks messages against the published schema; unknown fields are errors too."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

_SCHEMA = json.loads(Path(__file__).with_name("debugProtocol.json").read_text())
_DEFINITIONS: dict[str, Any] = _SCHEMA["definitions"]


def check_message(message: dict[str, Any], module_columns: Collection[str] = ()) -> None:
    """Raises AssertionError for a message that is not one of the protocol's.

    A module may have attributes for the columns that the adapter announced.
    """
    name = _definition_name(message)
    found = _validator(name).iter_errors(message)
    # The schema wants a restart's arguments to fit either launch or attach, but all fit both.
    errors = [f"{e.json_path}: {e.message}" for e in found if e.validator != "oneOf"]
    # A launch's arguments, and a token, are up to the adapter.
    if name not in ("LaunchRequest", "AttachRequest", "RestartRequest"):
        errors += _unknown(message, {"$ref": f"#/definitions/{name}"}, "$")
    columns = tuple(f".{column} is not in the schema" for column in module_columns)
    errors = [e for e in errors if not ("odule" in e and e.endswith(columns))]
    errors = [e for e in errors if not e.startswith("$.arguments.opstepToken ")]
    assert not errors, f"{name} {message} breaks the schema: {'; '.join(errors)}"


def capability_names() -> set[str]:
    return set(_DEFINITIONS["Capabilities"]["properties"])


def _definition_name(message: dict[str, Any]) -> str:
    kind = message.get("type")
    if kind == "response" and not message.get("success"):
        return "ErrorResponse"
    subject = message.get("event" if kind == "event" else "command")
    assert isinstance(subject, str) and subject, f"a message without a subject: {message}"
    if subject.startswith("opstep"):
        return str(kind).capitalize()  # One of our own requests: check the common fields only.
    name = subject[0].upper() + subject[1:] + str(kind).capitalize()
    assert name in _DEFINITIONS, f"the protocol has no {name}"
    return name


@cache
def _validator(name: str) -> Any:
    schema = {"$ref": f"#/definitions/{name}", "definitions": _DEFINITIONS}
    return jsonschema.Draft4Validator(schema)


def _parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that hold together, with references and allOf resolved."""
    if "$ref" in schema:
        return _parts(_DEFINITIONS[schema["$ref"].rsplit("/", 1)[1]])
    if "allOf" in schema:
        return [part for each in schema["allOf"] for part in _parts(each)]
    return [schema]


def _unknown(value: Any, schema: dict[str, Any], path: str) -> list[str]:
    parts = _parts(schema)
    if isinstance(value, list):
        items = [part["items"] for part in parts if "items" in part]
        return [
            e for s in items for i, v in enumerate(value) for e in _unknown(v, s, f"{path}[{i}]")
        ]
    properties: dict[str, Any] = {}
    for part in parts:
        properties.update(part.get("properties", {}))
    if not isinstance(value, dict) or not properties:
        return []
    errors = []
    for key, child in value.items():
        if key in properties:
            errors += _unknown(child, properties[key], f"{path}.{key}")
        elif not any("additionalProperties" in part for part in parts):
            errors.append(f"{path}.{key} is not in the schema")
    return errors
