"""Exit codes of the terminal debugger: the table behind its help."""

from __future__ import annotations

from opstep_server.wire import debug_pb2 as pb

FAULT = 1
# Of `opstep log`: there were records, but none was written.
LOST = 1
WRONG = 2

_TABLE = (
    ("128 + N", "signal N ended the debugger: 130 after Ctrl-C"),
    (
        str(WRONG),
        "a command or an argument was wrong, or could not be done, or a batch started nothing",
    ),
    (str(FAULT), "stopped at a NaN, an Inf, an overflow or a failing op"),
    ("the script's", "otherwise; 128 + N when signal N ended it, 0 when it was still running"),
)

_FAULTS = (pb.STOP_NAN, pb.STOP_INF, pb.STOP_OVERFLOW, pb.STOP_ERROR)


def help_text() -> str:
    width = max(len(code) for code, _ in _TABLE)
    return "\n".join(f"  {code:<{width}}  {what}" for code, what in _TABLE)


def is_fault(reason: pb.StopReason) -> bool:
    return reason in _FAULTS


def code(failed: bool, fault: bool, script: int | None) -> int:
    """The code of a batch: a command failed, it stopped at a fault, or the script's own code."""
    if failed:
        return WRONG
    if fault:
        return FAULT
    if script is None:
        return 0
    return script if script >= 0 else by_signal(-script)


def by_signal(number: int) -> int:
    return 128 + number
