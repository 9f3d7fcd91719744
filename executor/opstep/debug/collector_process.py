"""The collector of this process: `opstep collect`, which writes the records of its taps."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

from opstep._core import Error

# It imports NumPy and gRPC, on a machine that may be busy.
_START_SECONDS = 30.0
_END_SECONDS = 4.0
# Variables that would make the collector connect or log by itself.
_NOT_ITS = ("OPSTEP_SERVER", "OPSTEP_TAPS", "OPSTEP_WAIT")

_process: subprocess.Popen[bytes] | None = None


def start(taps: str | None) -> str:
    """The address of a collector for this process, with the taps of a file."""
    global _process
    mine, its = os.pipe()
    # -P: a file in the current directory must not be imported instead of a module.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    command = [sys.executable, *safe, "-m", "opstep_server", "collect"]
    command += ["--parent", str(os.getpid()), "--ready", str(its)]
    command += ["--taps", taps] if taps else []
    try:
        # Its own session: Ctrl-C must not end it before it has written what we send then.
        _process = subprocess.Popen(
            command,
            pass_fds=(its,),
            stdin=subprocess.DEVNULL,
            env={name: text for name, text in os.environ.items() if name not in _NOT_ITS},
            start_new_session=True,
        )
    except OSError as error:
        os.close(mine)
        raise Error(f"cannot start {command[0]}: {error.strerror}") from None
    finally:
        os.close(its)
    with os.fdopen(mine, "rb") as pipe:
        came, _, _ = select.select([pipe], [], [], _START_SECONDS)
        address = pipe.readline().decode().strip() if came else ""
    if not address:
        # It has reported the reason itself.
        end()
        raise Error(f"no collector started to write tap records{f': see {taps}' if taps else ''}")
    return address


def end() -> None:
    """Lets the collector write its last records, and waits until it has ended."""
    process = forget()
    if process is None:
        return
    with contextlib.suppress(OSError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def forget() -> subprocess.Popen[bytes] | None:
    """Drops the collector, as in a forked child, whose collector belongs to the parent."""
    global _process
    process, _process = _process, None
    return process
