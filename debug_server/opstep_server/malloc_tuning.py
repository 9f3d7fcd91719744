"""Settings of malloc for a process that receives and frees large tensors all the time."""

from __future__ import annotations

import contextlib

# glibc's names for what `mallopt` sets.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8


def keep_freed() -> None:
    """Keeps freed memory in the process: fresh pages for every message take longer than to
    receive it. For a process that is ours alone.
    """
    import ctypes

    # Other C libraries have no such settings.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, 32 << 20)
        mallopt(_TRIM_THRESHOLD, 64 << 20)
        mallopt(_TOP_PAD, 8 << 20)
