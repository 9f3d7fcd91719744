"""A tensor to a file in NumPy's format, piece by piece."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from typing import BinaryIO

from opstep_server import values
from opstep_server.cli import in_view, render
from opstep_server.cli.session import Session
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb, program_pb2

_PIECE = 16 << 20
# How often is told how far it is.
_SECONDS = 1.0
# As NumPy calls them.
_DESCRIPTIONS = {
    program_pb2.FLOAT32: "<f4",
    program_pb2.FLOAT64: "<f8",
    program_pb2.FLOAT16: "<f2",
    program_pb2.BFLOAT16: "<f4",
    program_pb2.INT8: "|i1",
    program_pb2.INT16: "<i2",
    program_pb2.INT32: "<i4",
    program_pb2.INT64: "<i8",
    program_pb2.UINT8: "|u1",
    program_pb2.BOOL: "|b1",
}


async def dump(session: Session, text: str, file: str, over: bool) -> None:
    path = os.path.expanduser(file)
    if not path.endswith(".npy"):
        raise DebuggerError(f"'{file}' must end with .npy, the format that is written")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise DebuggerError(f"there is no folder '{folder}'")
    value = await in_view.evaluate(session, text, max_elements=1)
    tensor = _tensor(text, value)
    if os.path.exists(path) and not over and not await _may_replace(session, text, file):
        return
    size = values.element_bytes(tensor.dtype) * values.count(tensor)
    try:
        # Beside it, so that it takes its place at once and whole.
        handle, new = tempfile.mkstemp(dir=folder, prefix=".dump-", suffix=".npy")
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(header(tensor))
                done = await _write(session, text, tensor, size, opened)
            if not done:
                session.screen.line(f"interrupted: {file} was not written", "yellow")
                return
            os.chmod(new, 0o666 & ~_umask())
            os.replace(new, path)
        finally:
            if os.path.exists(new):
                os.unlink(new)
    except OSError as error:
        raise DebuggerError(f"{file} cannot be written: {error.strerror}") from None
    what = values.type_name(tensor.dtype, tensor.dims)
    wide = ", as float32" if tensor.dtype == program_pb2.BFLOAT16 else ""
    written = render.size(os.path.getsize(path))
    session.screen.line(f"wrote {text}, {what}{wide}, to {file}: {written}")


def _tensor(text: str, value: pb.Value) -> pb.Tensor:
    kind = value.WhichOneof("kind")
    if kind == "tensor" and value.tensor.dtype in _DESCRIPTIONS:
        return value.tensor
    dtypes = {"f": program_pb2.FLOAT64, "i": program_pb2.INT64, "b": program_pb2.BOOL}
    if kind in dtypes:
        return pb.Tensor(dtype=dtypes[kind])
    raise DebuggerError(f"{text} is {values.describe(value)}: only tensors can be written")


async def _may_replace(session: Session, text: str, file: str) -> bool:
    if session.ask is None:
        raise DebuggerError(f"{file} is there already: 'dump {text} {file} !' writes over it")
    answer = await session.ask(f"{file} is there already: write over it? [y/N] ")
    return answer.startswith("y")


async def _write(
    session: Session, text: str, tensor: pb.Tensor, size: int, opened: BinaryIO
) -> bool:
    """False when Ctrl-C came."""
    told = time.monotonic()
    for offset in range(0, size, _PIECE):
        piece = bytearray(min(_PIECE, size - offset))
        await session.debugger.read_bytes_into(
            session.thread.id, in_view.frame(session), text, offset, piece, in_view.walked(session)
        )
        opened.write(widened(piece) if tensor.dtype == program_pb2.BFLOAT16 else piece)
        if session.interrupted:
            return False
        done = offset + len(piece)
        if done < size and time.monotonic() - told > _SECONDS:
            told = time.monotonic()
            session.screen.line(f"  {100 * done // size} % of {render.size(size)}")
    return True


def header(tensor: pb.Tensor) -> bytes:
    """What stands in the file before the elements, in version 1.0 of the format."""
    comma = "," if len(tensor.dims) == 1 else ""
    shape = f"({', '.join(map(str, tensor.dims))}{comma})"
    about = (
        f"{{'descr': '{_DESCRIPTIONS[tensor.dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
    )
    start = b"\x93NUMPY\x01\x00"
    blanks = -(len(start) + 2 + len(about) + 1) % 64
    text = f"{about}{' ' * blanks}\n".encode("ascii")
    return start + struct.pack("<H", len(text)) + text


def widened(piece: bytearray) -> bytes:
    """A bfloat16 is the upper half of a float32."""
    wide = bytearray(2 * len(piece))
    wide[2::4], wide[3::4] = piece[::2], piece[1::2]
    return bytes(wide)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
