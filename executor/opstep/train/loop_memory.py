"""How much memory loops may take for their gradients.

The gradient of a loop needs values of all of its turns, which the run keeps; in imperative mode the
tape does, also for loops of `to_graph` functions and of `while_loop`. A loop that does not end
would take all memory, so the limit is half of the machine's memory. The variable OPSTEP_LOOP_MEMORY
sets another limit at the start, in bytes.
"""

from __future__ import annotations

import os

from opstep import _core
from opstep._core import Error

_LIMIT_FILES = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def set_loop_memory(limit: int) -> None:
    """Let the loops of this process keep up to `limit` bytes for their gradients; a run that needs
    more ends with an error."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit < 2**63:
        raise Error(f"the memory of loops is {limit!r}: it must be a whole number of bytes above 0")
    _core.set_loop_memory(limit)


def get_loop_memory() -> int:
    """How many bytes loops may keep for their gradients."""
    return _core.get_loop_memory()


def _memory() -> int:
    """The memory of the machine, or of the container that this process is in."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _LIMIT_FILES:
        try:
            with open(path) as file:
                found = min(found, int(file.read()))
        except (OSError, ValueError):
            pass  # no such limit
    return found


def _start() -> None:
    text = os.environ.get("OPSTEP_LOOP_MEMORY")
    if not text:
        return set_loop_memory(max(_memory() // 2, 1 << 20))
    try:
        return set_loop_memory(int(text))
    except (ValueError, Error):
        raise Error(
            f"OPSTEP_LOOP_MEMORY is '{text}': it must be a whole number of bytes above 0"
        ) from None
