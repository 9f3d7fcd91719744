"""Known names of ops, variables and files, for completion and suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opstep_server import values
from opstep_server.wire import debug_pb2 as pb


@dataclass
class KnownNames:
    """Names that outlive the executor."""

    ops: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    # Ops that run blocks; with several blocks, each of them: "cond_0.true_block".
    blocks: set[str] = field(default_factory=set)
    # The files where ops were made.
    files: set[str] = field(default_factory=set)
    lines: dict[str, set[int]] = field(default_factory=dict)
    # Types of ops and of variables, by name.
    about: dict[str, str] = field(default_factory=dict)

    def learn(self, ops: Sequence[pb.OpInfo]) -> None:
        for op in ops:
            self.ops.add(op.name)
            self.types.add(op.type)
            self.about[op.name] = op.type
            if op.blocks:
                self.blocks.add(op.name)
            if len(op.blocks) > 1:
                self.blocks.update(f"{op.name}.{block.name}" for block in op.blocks)
            for line in op.stack:
                self.files.add(line.file)
                self.lines.setdefault(line.file, set()).add(line.line)
            for var in op.outputs:
                self.variables.add(var.name)
                self.about.setdefault(var.name, values.type_name(var.dtype, var.dims))
