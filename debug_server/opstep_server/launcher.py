"""Runs a command in a terminal and reports on it to the debugger: launcher.py SOCKET ARG...

Started by its path and with the standard library only: the terminal's environment may know nothing
of this package.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

KILL_AFTER_SECONDS = 2.0


def main(address: str, command: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as debugger:
        try:
            debugger.connect(address)
        except OSError as error:
            print(f"opstep: the debugger waits no longer: {error.strerror}", file=sys.stderr)
            return 1
        try:
            child = subprocess.Popen(command)
        except OSError as error:
            reason = f"cannot start {command[0]}: {error.strerror}"
            print(reason, file=sys.stderr)
            debugger.sendall(f"failed {reason}\n".encode())
            return 1
        debugger.sendall(f"pid {child.pid}\n".encode())
        threading.Thread(target=_guard, args=(debugger, child), daemon=True).start()
        code = _wait(child)
        # The debugger may have let the script go.
        with contextlib.suppress(OSError):
            debugger.sendall(f"exit {code}\n".encode())
    return code if code >= 0 else 128 - code


def _guard(debugger: socket.socket, child: subprocess.Popen[bytes]) -> None:
    """Ends the script when the debugger is gone and has not said that it may go on."""
    said = b""
    try:
        while piece := debugger.recv(64):
            said += piece
    except OSError:
        pass
    if b"leave" in said:
        return
    child.terminate()
    try:
        child.wait(KILL_AFTER_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()


def _wait(child: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            pass  # The terminal sends Ctrl-C to the child too, which handles it.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
