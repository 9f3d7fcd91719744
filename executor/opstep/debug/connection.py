"""This process and its debug server: connecting, leaving, and the doorbell for a later debugger."""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time

from opstep import _core, context
from opstep._core import Error
from opstep.debug import collector_process, credentials, tap_limits
from opstep.version import __version__

_ENDS = ("continue", "wait")
_POLICIES = ("full", "observe", "log-only")
_POLL_SECONDS = 0.02
# It listens already: the first run waits for no more than the connection.
_COLLECTOR_SECONDS = 5.0

_doorbell_is_open = False


def connect(
    address: str | None = None,
    wait: float = 0.2,
    on_disconnect: str | None = None,
    max_pause: float | None = None,
    policy: str | None = None,
    token_file: str | None = None,
    tls_ca: str | None = None,
) -> None:
    """Dial a debug server, `unix:/path` or `host:port` (OPSTEP_SERVER when not given).

    Returns at once and dials again whenever the server goes away. The first run waits up to `wait`
    seconds for the server. A run that is stopped when the server goes away goes on, or with
    `on_disconnect="wait"` waits for the next one. No stop lasts longer than `max_pause` seconds.

    `policy` says what a debugger may do here: everything (`"full"`), nothing that changes values or
    ends the process (`"observe"`), or only log messages, without a stop (`"log-only"`).

    A server on TCP wants a token, the content of a file that only you can read; one on another
    machine also has a certificate, which the root certificates in the file `tls_ca` must vouch for.
    What is not given is taken from the environment.
    """
    address = address or os.environ.get("OPSTEP_SERVER")
    if not address:
        raise Error("no debug server to connect to: give an address or set OPSTEP_SERVER")
    if not re.fullmatch(r"unix:.+|.+:\d+", address):
        raise Error(f"'{address}' is not a debug server's address: give unix:/path or host:port")
    if not wait >= 0:
        raise Error("wait is 0 seconds or more")
    options = _options(on_disconnect, max_pause, policy)
    token_file = token_file or os.environ.get("OPSTEP_TOKEN_FILE")
    tls_ca = tls_ca or os.environ.get("OPSTEP_TLS_CA")
    if credentials.beyond_this_machine(address) and not (token_file and tls_ca):
        raise Error(
            f"the debug server at {address} is on another machine: "
            "OPSTEP_TOKEN_FILE and OPSTEP_TLS_CA must name files with its token and certificate"
        )
    options.address = address
    options.wait = float(wait)
    if not address.startswith("unix:"):
        options.token = credentials.read_token(token_file) if token_file else ""
        options.root_certificates = credentials.read_certificates(tls_ca) if tls_ca else ""
    _core.debug_connect(options)


def wait_for_client(timeout: float | None = None) -> bool:
    """Wait until somebody debugs this process; False when nobody did so in `timeout` seconds.

    Connects to OPSTEP_SERVER if that was not done before. Without a server it waits for
    `opstep attach`.
    """
    if not _core.debug_state().wanted:
        if os.environ.get("OPSTEP_SERVER"):
            connect()
        else:
            _open_doorbell()
            if not _doorbell_is_open:
                raise Error(
                    "nobody could attach to this process: set OPSTEP_SERVER, or let it have a "
                    "doorbell (OPSTEP_DOORBELL is 0)"
                )
            pid = os.getpid()
            print(f"opstep: waiting for a debugger: opstep attach {pid}", file=sys.stderr)
    end = None if timeout is None else time.monotonic() + timeout
    while not (state := _core.debug_state()).attached:
        if state.refused:
            raise Error(f"no debugger will come: {state.refused}")
        if end is not None and time.monotonic() >= end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def detach() -> None:
    """Leave the debug server; stopped runs go on."""
    _core.debug_disconnect()


def attached() -> bool:
    """Does somebody debug this process now?"""
    return _core.debug_state().attached


def _options(
    on_disconnect: str | None = None, max_pause: float | None = None, policy: str | None = None
) -> _core.AgentOptions:
    on_disconnect = on_disconnect or os.environ.get("OPSTEP_ON_DISCONNECT") or "continue"
    if on_disconnect not in _ENDS:
        raise Error(f"on_disconnect is 'continue' or 'wait', not '{on_disconnect}'")
    max_pause = _number("OPSTEP_MAX_PAUSE") if max_pause is None else max_pause
    if max_pause is not None and not max_pause > 0:
        raise Error("max_pause is more than 0 seconds")
    policy = policy or os.environ.get("OPSTEP_POLICY") or "full"
    if policy not in _POLICIES:
        raise Error(f"policy is 'full', 'observe' or 'log-only', not '{policy}'")
    options = _core.AgentOptions()
    options.policy = policy
    options.taps = tap_limits.limits(options.taps, policy)
    options.wait_on_disconnect = on_disconnect == "wait"
    options.max_pause = float(max_pause or 0.0)
    # Words that are not UTF-8 come as lone surrogates, which the wire cannot carry.
    words = getattr(sys, "argv", [])
    options.argv = [str(word).encode("utf-8", "replace").decode() for word in words]
    options.rank = _rank()
    options.version = __version__
    return options


def _open_doorbell() -> None:
    """Called for every Executor; opens it for the first one."""
    global _doorbell_is_open
    if _doorbell_is_open or os.environ.get("OPSTEP_DOORBELL") == "0":
        return
    _doorbell_is_open = True
    try:
        _core.doorbell_open(_options())
    except Error as error:
        print(f"opstep: no doorbell for debuggers: {error}", file=sys.stderr)


def breakpoint() -> None:
    """In a layer's definition: an attached debugger stops before the next op that is made here.

    It marks that op in the current program, so each run of the op stops. In imperative mode the
    next op that runs stops. Without a debugger nothing happens.
    """
    if context.imperative():
        _core.stop_next()
    else:
        context.default_main_program()._stop_next = True


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
    return int(rank) if rank.isdecimal() and len(rank) < 10 else 0


def _in_child() -> None:
    global _doorbell_is_open
    _doorbell_is_open = False
    collector_process.forget()
    _core.debug_forget_after_fork()
    _core.set_main_thread(threading.main_thread().ident)


def _end() -> None:
    _core.doorbell_close()
    detach()
    collector_process.end()


def log_taps(file: str) -> None:
    """Does what OPSTEP_TAPS=FILE does: starts the collector of records and connects to it."""
    address = collector_process.start(file)
    # Processes that this one starts log to the same place.
    os.environ["OPSTEP_SERVER"] = address
    connect(address, wait=_COLLECTOR_SECONDS)


def _start() -> None:
    """Called once, when opstep is imported."""
    os.register_at_fork(after_in_child=_in_child)
    atexit.register(_end)
    taps = os.environ.get("OPSTEP_TAPS")
    if not os.environ.get("OPSTEP_SERVER"):
        if taps:
            _start_taps(taps)
        return
    try:
        wait = _number("OPSTEP_WAIT")
        connect(wait=0.2 if wait is None else wait)
    except Error as error:
        # The run comes first: a mistake in the debugger's settings must not end it.
        print(f"opstep: running without the debugger: {error}", file=sys.stderr)


def _start_taps(file: str) -> None:
    try:
        log_taps(file)
    except Error as error:
        # The run comes first here too.
        print(f"opstep: running without taps: {error}", file=sys.stderr)
