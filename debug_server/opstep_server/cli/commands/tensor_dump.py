"""The dump of a tensor to a file in NumPy's format, with its progress."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator

from opstep_server import npy, values
from opstep_server.cli.commands import focus
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.wire import program_pb2

_PIECE = 16 << 20
# The time between reports of progress.
_SECONDS = 1.0


async def dump(session: TerminalSession, text: str, file: str, over: bool) -> None:
    path = npy.checked(file)
    tensor = npy.tensor(text, await focus.evaluate(session, text, max_elements=1))
    if os.path.exists(path) and not over and not await _may_replace(session, text, file):
        return
    size = values.element_bytes(tensor.dtype) * values.count(tensor)
    if not await npy.write(path, tensor, _pieces(session, text, size)):
        session.screen.line(f"interrupted: {file} was not written", "yellow")
        return
    what = values.type_name(tensor.dtype, tensor.dims)
    wide = ", as float32" if tensor.dtype == program_pb2.BFLOAT16 else ""
    written = descriptions.size(os.path.getsize(path))
    session.screen.line(f"wrote {text}, {what}{wide}, to {file}: {written}")


async def _may_replace(session: TerminalSession, text: str, file: str) -> bool:
    if session.ask is None:
        raise DebuggerError(f"{file} is there already: 'dump {text} {file} !' writes over it")
    answer = await session.ask(f"{file} is there already: write over it? [y/N] ")
    return answer.startswith("y")


async def _pieces(session: TerminalSession, text: str, size: int) -> AsyncIterator[bytearray]:
    """The pieces of the tensor, until Ctrl-C."""
    told = time.monotonic()
    for offset in range(0, size, _PIECE):
        piece = bytearray(min(_PIECE, size - offset))
        await session.debugger.read_bytes_into(
            session.thread.id, focus.frame(session), text, offset, piece, focus.walked(session)
        )
        if session.interrupted:
            return
        yield piece
        done = offset + len(piece)
        if done < size and time.monotonic() - told > _SECONDS:
            told = time.monotonic()
            session.screen.line(f"  {100 * done // size} % of {descriptions.size(size)}")
