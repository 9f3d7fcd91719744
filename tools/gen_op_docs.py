"""Writes docs/ops.md, the reference of all ops, from the op registry.

`python tools/gen_op_docs.py` writes it; --check only tests whether it is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import opstep

TARGET = Path(__file__).parents[1] / "docs" / "ops.md"
HEAD = """# Ops

Made by `tools/gen_op_docs.py` from the op registry: do not edit. Where ONNX has the op, it
means the same. In Python every op is a function of `opstep.ops`.
"""


def generate(schemas: list[dict[str, Any]]) -> str:
    """The page as Markdown."""
    names = {schema["type"] for schema in schemas}
    gradients = {name for name in names if name.removesuffix("_grad") in names - {name}}
    forward = [schema for schema in schemas if schema["type"] not in gradients]
    parts = [HEAD]
    for schema in forward:
        parts.append(_section(schema, title="##"))
    parts.append("## Gradient ops\n\n`append_backward` adds these.\n")
    for schema in schemas:
        if schema["type"] in gradients:
            parts.append(_section(schema, title="###"))
    return "\n".join(parts)


def _section(schema: dict[str, Any], title: str) -> str:
    lines = [f"{title} {schema['type']}", "", schema["doc"]]
    rows = [_slot_row("input", slot) for slot in schema["inputs"]]
    rows += [_attr_row(attr) for attr in schema["attrs"]]
    rows += [_slot_row("output", slot) for slot in schema["outputs"]]
    if rows:
        lines += ["", "| | name | type | meaning |", "|---|---|---|---|", *rows]
    notes = []
    if schema["has_grad"]:
        notes.append("Has a gradient.")
    if schema["side_effect"]:
        notes.append("Runs although nobody reads its outputs.")
    if notes:
        lines += ["", " ".join(notes)]
    return "\n".join(lines) + "\n"


def _slot_row(kind: str, slot: dict[str, Any]) -> str:
    notes = [word for word in ("optional", "variadic") if slot[word]]
    if slot["shape_only"]:
        notes.append("only its shape is read")
    if slot["inplace_of"]:
        notes.append(f"may take the memory of {slot['inplace_of']}")
    meaning = "; ".join([slot["doc"], *notes])
    types = ", ".join(slot["dtypes"]) if slot["kind"] == "tensor" else slot["kind"]
    return f"| {kind} | `{slot['name']}` | {types} | {_cell(meaning)} |"


def _attr_row(attr: dict[str, Any]) -> str:
    default = "required" if attr["required"] else f"default `{attr['default']!r}`"
    return f"| attribute | `{attr['name']}` | {attr['type']}, {default} | {_cell(attr['doc'])} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    text = generate(opstep._core.ops())
    if "--check" in sys.argv[1:]:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        print("docs/ops.md is out of date: run .venv/bin/python tools/gen_op_docs.py")
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
