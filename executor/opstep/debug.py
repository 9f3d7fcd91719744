"""Attach this process to a debug server: `opstep debug` and editors do it by themselves.

The environment does the same without a change to the program: OPSTEP_SERVER holds the address,
OPSTEP_WAIT, OPSTEP_ON_DISCONNECT and OPSTEP_MAX_PAUSE stand for the arguments of `connect`.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading

from opstep import _core
from opstep._core import Error
from opstep.version import __version__

_POLICIES = ("continue", "wait")


def connect(
    address: str | None = None,
    wait: float = 0.2,
    on_disconnect: str = "continue",
    max_pause: float | None = None,
) -> None:
    """Dial a debug server, `unix:/path` or `host:port` (OPSTEP_SERVER when not given).

    Returns at once and dials again whenever the server goes away. The first run waits up to `wait`
    seconds for the server. A run that is stopped when the server goes away goes on, or with
    `on_disconnect="wait"` waits for the next one. No stop lasts longer than `max_pause` seconds.
    """
    address = address or os.environ.get("OPSTEP_SERVER")
    if not address:
        raise Error("no debug server to connect to: give an address or set OPSTEP_SERVER")
    if on_disconnect not in _POLICIES:
        raise Error(f"on_disconnect is 'continue' or 'wait', not '{on_disconnect}'")
    if wait < 0 or (max_pause is not None and max_pause <= 0):
        raise Error("wait is 0 seconds or more, and max_pause more than 0")
    _core.debug_connect(
        address=address,
        wait=float(wait),
        wait_on_disconnect=on_disconnect == "wait",
        max_pause=float(max_pause or 0.0),
        argv=list(getattr(sys, "argv", [])),
        rank=_rank(),
        version=__version__,
    )


def detach() -> None:
    """Leave the debug server; stopped runs go on."""
    _core.debug_disconnect()


def attached() -> bool:
    """Is a debug server attached now?"""
    return _core.debug_attached()


def _number(name: str) -> float | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise Error(f"{name} is a number of seconds, not '{text}'") from None


def _rank() -> int:
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdigit() else 0


def _in_child() -> None:
    _core.debug_forget_after_fork()
    _core.set_main_thread(threading.main_thread().ident)


def _start() -> None:
    """Called once, when opstep is imported."""
    os.register_at_fork(after_in_child=_in_child)
    atexit.register(detach)
    if not os.environ.get("OPSTEP_SERVER"):
        return
    try:
        wait = _number("OPSTEP_WAIT")
        connect(
            wait=0.2 if wait is None else wait,
            on_disconnect=os.environ.get("OPSTEP_ON_DISCONNECT") or "continue",
            max_pause=_number("OPSTEP_MAX_PAUSE"),
        )
    except Error as error:
        # The run comes first: a mistake in the debugger's settings must not end it.
        print(f"opstep: running without the debugger: {error}", file=sys.stderr)
