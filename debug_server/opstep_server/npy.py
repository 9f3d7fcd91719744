"""Tensors in files of NumPy's format, written piece by piece."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import AsyncIterator
from typing import BinaryIO

from opstep_server import values
from opstep_server.model import DebuggerError
from opstep_server.wire import debug_pb2 as pb, program_pb2

# NumPy's names of the types.
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


def checked(file: str) -> str:
    """The full path, if a tensor can be written there."""
    path = os.path.expanduser(file)
    if "\0" in path:
        raise DebuggerError(f"{file!r} has a NUL byte, which no file's name can have")
    if not path.endswith(".npy"):
        raise DebuggerError(f"'{file}' must end with .npy, the format that is written")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise DebuggerError(f"there is no folder '{folder}'")
    return path


def tensor(text: str, value: pb.Value) -> pb.Tensor:
    """The tensor to write; a number is a tensor without axes, and carries its bytes."""
    kind = value.WhichOneof("kind")
    if kind == "tensor" and value.tensor.dtype in _DESCRIPTIONS:
        bare = value.tensor
        return pb.Tensor(dtype=bare.dtype, dims=bare.dims, summary=bare.summary)
    if kind == "f":
        return pb.Tensor(dtype=program_pb2.FLOAT64, data=struct.pack("<d", value.f))
    if kind == "i":
        return pb.Tensor(dtype=program_pb2.INT64, data=struct.pack("<q", value.i))
    if kind == "b":
        return pb.Tensor(dtype=program_pb2.BOOL, data=struct.pack("<?", value.b))
    raise DebuggerError(f"{text} is {values.describe(value)}: only tensors can be written")


async def write(path: str, about: pb.Tensor, pieces: AsyncIterator[bytearray]) -> bool:
    """Writes elements that come in pieces. Returns False and writes no file if some are missing."""
    size = values.element_bytes(about.dtype) * values.count(about)
    try:
        # A temporary file beside it, so that the file appears at once and complete.
        folder = os.path.dirname(path) or "."
        handle, new = tempfile.mkstemp(dir=folder, prefix=".dump-", suffix=".npy")
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(header(about))
                if await _fill(opened, about, pieces) < size:
                    return False
            os.chmod(new, 0o666 & ~_umask())
            os.replace(new, path)
        finally:
            if os.path.exists(new):
                os.unlink(new)
    except OSError as error:
        raise DebuggerError(f"{path} cannot be written: {error.strerror}") from None
    return True


async def _fill(opened: BinaryIO, about: pb.Tensor, pieces: AsyncIterator[bytearray]) -> int:
    written = opened.write(about.data)
    if written:
        return written
    async for piece in pieces:
        opened.write(widened(piece) if about.dtype == program_pb2.BFLOAT16 else piece)
        written += len(piece)
    return written


def header(about: pb.Tensor) -> bytes:
    """The header before the elements, in version 1.0 of the format."""
    comma = "," if len(about.dims) == 1 else ""
    shape = f"({', '.join(map(str, about.dims))}{comma})"
    text = (
        f"{{'descr': '{_DESCRIPTIONS[about.dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
    )
    start = b"\x93NUMPY\x01\x00"
    blanks = -(len(start) + 2 + len(text) + 1) % 64
    line = f"{text}{' ' * blanks}\n".encode("ascii")
    return start + struct.pack("<H", len(line)) + line


def widened(piece: bytearray) -> bytes:
    """A bfloat16 is the upper half of a float32."""
    wide = bytearray(2 * len(piece))
    wide[2::4], wide[3::4] = piece[::2], piece[1::2]
    return bytes(wide)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
