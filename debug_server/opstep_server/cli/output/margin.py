"""The margin of listings: signs of the breakpoints beside their lines."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence

from opstep_server.cli.output import descriptions
from opstep_server.debugger import (
    BreakpointState,
    ListingWhere,
    OpWhere,
    PatternWhere,
    ProgramRef,
    SourceWhere,
)
from opstep_server.wire import debug_pb2 as pb


def sign(state: BreakpointState) -> str:
    return "●" if state.spec.enabled and state.verified else "○"


def of_source(states: Sequence[BreakpointState], file: str) -> dict[int, str]:
    """The signs by line of the file."""
    real = os.path.realpath(file)
    return {
        state.spec.where.line: sign(state)
        for state in states
        if isinstance(state.spec.where, SourceWhere) and state.spec.where.file == real
    }


def of_listing(
    states: Sequence[BreakpointState], program: ProgramRef, ops: Sequence[pb.OpInfo]
) -> dict[int, str]:
    """The signs by line of the program's listing."""
    return {line: sign(state) for state in states for line in _lines(state, program, ops)}


def _lines(state: BreakpointState, program: ProgramRef, ops: Sequence[pb.OpInfo]) -> Iterator[int]:
    where = state.spec.where
    if isinstance(where, ListingWhere) and where.program_name == program.event.name:
        yield where.line
    for op in ops:
        if isinstance(where, OpWhere):
            hit = (program.event.program, op.id) == (where.program, where.op)
        elif isinstance(where, PatternWhere):
            hit = op.type == where.pattern or fnmatch.fnmatchcase(op.name, where.pattern)
        elif isinstance(where, SourceWhere):
            hit = any((line.file, line.line) == (where.file, where.line) for line in op.stack)
            hit = hit and (state.spec.gradients or not descriptions.is_gradient(op))
        else:
            hit = False
        if hit:
            yield op.listing_line
