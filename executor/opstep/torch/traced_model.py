"""Model: what the programs of one compiled function share, forward and gradient."""

from __future__ import annotations

from dataclasses import dataclass, field

from opstep.torch.call_numbers import CallKeys
from opstep.torch.source_lines import Line


@dataclass
class Model:
    """What the graphs of one compiled function share: its forward graph and the gradient's."""

    name: str
    # Names of the forward graph's inputs, by their position.
    inputs: list[str]
    # For ops that have no line: those of the call that was compiled.
    lines: tuple[Line, ...]
    # Of each traced call: the op that did its work, and the keys of its Python calls.
    ops: dict[str, tuple[str, str]] = field(default_factory=dict)
    keys: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    # The variables of the forward program, by the node that made them.
    variables: dict[str, str] = field(default_factory=dict)
    call_keys: CallKeys = field(default_factory=CallKeys)
