"""The standard streams of a process that was started without some of them."""

from __future__ import annotations

import os
import sys


def open_missing() -> None:
    """Opens missing standard streams on /dev/null (`opstep … >&-`)."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != number:
            os.dup2(nothing, number)
            os.close(nothing)
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w"))
