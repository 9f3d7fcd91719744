"""Attach this process to a debug server: `opstep debug` and editors do it by themselves.

The environment does the same without a change to the program: OPSTEP_SERVER holds the address,
OPSTEP_TOKEN_FILE, OPSTEP_TLS_CA, OPSTEP_POLICY, OPSTEP_WAIT, OPSTEP_ON_DISCONNECT and
OPSTEP_MAX_PAUSE stand for the arguments of `connect`.

A process that has an Executor can also be attached to later, by `opstep attach`: it has a doorbell,
a socket that only its own user can use. OPSTEP_DOORBELL=0 turns it off.

OPSTEP_TAPS=taps.toml logs values of ops as that file says, without a debugger; `tap` does it from
Python.
"""

from opstep.debug.connection import (
    attached as attached,
    breakpoint as breakpoint,
    connect as connect,
    detach as detach,
    log_taps as log_taps,
    wait_for_client as wait_for_client,
)
from opstep.debug.tap_limits import limit_taps as limit_taps
from opstep.debug.taps import Tap as Tap, tap as tap
