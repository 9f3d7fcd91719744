"""The process that ends a launched script when its debugger was killed."""

from __future__ import annotations

import contextlib
import os
import subprocess

# Its input ends with us. The script has its own session: its group holds it and its children.
_SCRIPT = """
while read -r word number; do
  case $word in
    watch) group=$number ;;
    leave) exit 0 ;;
  esac
done
[ -n "$group" ] || exit 0
kill -s TERM -- "-$group" || exit 0
for tenth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  kill -s 0 -- "-$group" || exit 0
  sleep 0.1
done
kill -s KILL -- "-$group"
"""


class Guard:
    """Made before the script; call `leave` when the script has ended or may go on without us."""

    def __init__(self) -> None:
        read, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                ("/bin/sh", "-c", _SCRIPT),
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._close()
            raise
        finally:
            os.close(read)

    def watch(self, pid: int) -> None:
        self._say(f"watch {pid}\n")

    def leave(self) -> None:
        if self._lifeline >= 0:
            self._say("leave\n")
            self._close()

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # Somebody may have killed it.
            os.write(self._lifeline, line.encode())

    def _close(self) -> None:
        os.close(self._lifeline)
        self._lifeline = -1
