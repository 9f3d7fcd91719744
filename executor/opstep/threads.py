"""How many threads an op may use. Results are the same bits with any number of them.

One is the default: small ops gain nothing, and a debugger shows a simpler process. The variable
OPSTEP_NUM_THREADS sets the number at the start.
"""

from __future__ import annotations

import os
import sys

from opstep import _core
from opstep._core import Error


def set_num_threads(n: int) -> None:
    """Let each op of a run use up to `n` threads; large ops do, small ones stay on one."""
    if not isinstance(n, int):
        raise Error(f"the number of threads is {n!r}: it must be a whole number")
    _core.set_num_threads(n)


def get_num_threads() -> int:
    """How many threads an op may use."""
    return _core.get_num_threads()


def _start() -> None:
    text = os.environ.get("OPSTEP_NUM_THREADS")
    if not text:
        return
    try:
        set_num_threads(int(text))
    except (ValueError, Error):
        sentence = f"OPSTEP_NUM_THREADS is '{text}': it must be a number from 1 to 256"
        if sys.argv[:1] == ["-m"]:  # 'python -m opstep' imports us: it is a command, not a script
            raise SystemExit(f"opstep: {sentence}") from None
        raise Error(sentence) from None
