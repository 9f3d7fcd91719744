"""Where a node of a graph comes from: the user's lines, the module's path, names for its op."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_MARKS = re.compile(r"^\s*[~^]+\s*$")
_NUMBER = re.compile(r"_\d+$")


class Line(NamedTuple):
    """A frame of the user's code. `column`: where the call that made the op begins, or 0."""

    file: str
    line: int
    function: str
    column: int = 0


class ModuleCall(NamedTuple):
    """A module whose forward was running."""

    path: str
    own: bool  # its forward is not torch's own code, so it has a frame


@dataclass(frozen=True)
class Origin:
    """What made a node: frames, outermost first; modules, outermost first; the traced call."""

    lines: tuple[Line, ...]
    modules: tuple[ModuleCall, ...]
    # Dynamo's name of the call in the model's source, as "linear_3": unique in a graph.
    call: str

    @property
    def path(self) -> str:
        """The path of the innermost module, "" for the model itself."""
        return self.modules[-1].path if self.modules else ""

    @property
    def group(self) -> str:
        """A name for what the call did: "layer1.0.conv1.conv2d"."""
        function = without_number(self.call).strip("_")
        return ".".join(part for part in (self.path, function) if part)


def origin_of(node: torch.fx.Node) -> Origin:
    """From the metadata of the node; of a gradient, those of its forward op."""
    meta = node.meta
    calls = meta.get("source_fn_stack") or meta.get("fwd_source_fn_stack") or ()
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    return Origin(
        lines=parse_stack(meta.get("stack_trace") or ""),
        modules=tuple(
            ModuleCall(module_path(path), _is_own(kind)) for path, kind in modules.values()
        ),
        call=str(calls[-1][0]) if calls else "",
    )


def is_gradient(node: torch.fx.Node) -> bool:
    return node.meta.get("partitioner_tag") == "is_backward" or bool(
        node.meta.get("autograd_backward")
    )


def without_number(call: str) -> str:
    """ "linear_3" as "linear"."""
    return _NUMBER.sub("", call)


@cache
def parse_stack(text: str) -> tuple[Line, ...]:
    """The frames of a stack trace that are not torch's own, outermost first."""
    lines: list[Line] = []
    for row in text.splitlines():
        match = _FRAME.match(row)
        if match:
            lines.append(Line(match["file"], int(match["line"]), match["function"]))
        elif lines and _MARKS.match(row):
            lines[-1] = lines[-1]._replace(column=len(row) - len(row.lstrip()))
    return tuple(
        line
        for line in lines
        if not line.file.startswith(_TORCH) and not line.file.startswith("<eval_with_key>")
    )


def module_path(source: str) -> str:
    """ "L['self'].layer1.0.conv1" or "L['self']._modules['layer1']._modules['0']" as
    "layer1.0.conv1"."""
    name = source
    # A module that is called again: "layer@1".
    name = re.sub(r"@\d+", "", name)
    name = re.sub(r"\._(?:modules|parameters|buffers)\['([^']+)'\]", r".\1", name)
    name = re.sub(r"\.(?:_modules|_parameters|_buffers)(?=\.)", "", name)
    name = re.sub(r"^[LG]\['(?:self|s|model|mod|fn)'\]\.?", "", name)
    name = re.sub(r"^[LG]\['([^']+)'\]", r"\1", name)
    return re.sub(r"\[(\d+)\]", r".\1", name)


@cache
def _is_own(kind: Any) -> bool:
    """Is the code of the module's forward the user's?"""
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    return code is not None and not code.co_filename.startswith(_TORCH)


def call_lines() -> tuple[Line, ...]:
    """The lines of this thread that are neither opstep's nor torch's, outermost first."""
    from opstep import _core

    stack = [Line(file, line, function) for file, line, function in _core.user_stack()]
    return tuple(line for line in reversed(stack) if not line.file.startswith(_TORCH))


def stack_of(lines: Sequence[Line]) -> list[tuple[str, int, str]]:
    """The frames as an op has them, innermost first."""
    return [(line.file, line.line, line.function) for line in reversed(lines)]


def traced_function() -> str:
    """The function that Dynamo traces now, as "Net.forward"; "" if it is not known.

    For the rest of a function after a graph break it is "Net.forward:31", where it goes on.
    """
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_locals.get("code") if frame.f_code.co_name == "_compile" else None
        if isinstance(code, CodeType):
            name = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
            rest = re.search(r"torch_dynamo_resume_in_(.+)_at_(\d+)$", name)
            return f"{name[: rest.start()]}{rest[1]}:{rest[2]}" if rest else name
        frame = frame.f_back  # type: ignore[assignment]
    return ""
