"""The removal of taps: records on the way still arrive and are counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence

from opstep_server.model import DebuggerError, ExecutorProcess
from opstep_server.wire import debug_pb2 as pb

# An executor that does not list its taps within this time is left out.
LIST_SECONDS = 2.0
# How long records may be on their way when taps end.
LAST_SECONDS = 2.0
POLL_SECONDS = 0.05
# The beginning of a status that names the user who removed the tap.
REMOVED = "it was removed by "


async def listed(executor: ExecutorProcess) -> pb.TapStatuses | None:
    """All taps of the executor, of any user; None when it does not answer."""
    with contextlib.suppress(DebuggerError, asyncio.TimeoutError):
        asked = executor.ask(pb.Command(list_taps=pb.ListTaps()))
        return (await asyncio.wait_for(asked, LIST_SECONDS)).taps
    return None


async def last_words(
    executors: Sequence[ExecutorProcess], uids: Sequence[str], seconds: float = LAST_SECONDS
) -> AsyncIterator[tuple[ExecutorProcess, list[pb.TapStatus]]]:
    """The statuses of silent taps, once none of their records is on the way."""
    end = time.monotonic() + seconds
    left = list(executors)
    while left:
        for executor in list(left):
            told = await listed(executor)
            statuses = [each for each in (told.statuses if told else ()) if each.uid in uids]
            yield executor, statuses
            if not any(each.counts.waiting for each in statuses):
                left.remove(executor)
        if time.monotonic() >= end:
            return
        await asyncio.sleep(POLL_SECONDS)
