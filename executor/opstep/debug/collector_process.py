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
# What would have it do something else than it is told.
_NOT_ITS = ("OPSTEP_SERVER", "OPSTEP_TAPS", "OPSTEP_WAIT")

_process: subprocess.Popen[bytes] | None = None


def start(taps: str | None) -> str:
    """The address of a collector for this process, with the taps of a file."""
    global _process
    mine, its = os.pipe()
    # -P: a file beside the user must not be taken for a module of ours.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    command = [sys.executable, *safe, "-m", "opstep_server", "collect"]
    command += ["--parent", str(os.getpid()), "--ready", str(its)]
    command += ["--taps", taps] if taps else []
    try:
        # Its own session: Ctrl-C is for us, and it still has to write what we send then.
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
        # What is wrong it has said itself.
        end()
        raise Error(f"there is nobody to write what taps make{f': see {taps}' if taps else ''}")
    return address


def end() -> None:
    """Has it write what it still has, and waits for that."""
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
    """It is not ours (any more): a child has it from its parent."""
    global _process
    process, _process = _process, None
    return process
