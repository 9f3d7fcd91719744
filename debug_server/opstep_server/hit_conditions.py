"""Hit conditions: which of a breakpoint's visits count."""

from __future__ import annotations

import re

from opstep_server.model import DebuggerError
from opstep_server.wire import debug_pb2 as pb

_OPS = {
    "": pb.HitCondition.EQUAL,
    "==": pb.HitCondition.EQUAL,
    "!=": pb.HitCondition.NOT_EQUAL,
    "<": pb.HitCondition.LESS,
    "<=": pb.HitCondition.LESS_EQUAL,
    ">": pb.HitCondition.GREATER,
    ">=": pb.HitCondition.GREATER_EQUAL,
    "%": pb.HitCondition.MULTIPLE,
}
_MOST = 2**63 - 1


def parse(text: str) -> pb.HitCondition:
    """`5`, `>= 100`, `% 10`: visits are counted from 1."""
    match = re.fullmatch(r"\s*(==|!=|<=|>=|<|>|%|)\s*([0-9]+)\s*", text)
    if match is None:
        raise DebuggerError(
            f"'{text.strip()}' is not a hit condition: write a number, or ==, !=, <, <=, >, >= or "
            "% and a number"
        )
    op, count = match[1], int(match[2])
    if count > _MOST:
        raise DebuggerError(f"the hit condition '{text.strip()}' has too large a number")
    # Visits are 1, 2, …: these would never stop, and nobody would learn why.
    if (count == 0 and op in ("", "==", "<", "<=", "%")) or (count == 1 and op == "<"):
        raise DebuggerError(
            f"the hit condition '{text.strip()}' never holds: visits are counted from 1"
        )
    return pb.HitCondition(op=_OPS[op], count=count)
