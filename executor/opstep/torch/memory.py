"""Torch tensors and the executor's types: how a tensor is held in a program, and its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from opstep.torch.refusals import NotSupported

# Dtypes that ops compute with.
COMPUTED = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
}

# Dtypes that only foreign ops compute with: the program holds their bytes as another dtype.
_CARRIED = {
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e4m3fnuz: torch.uint8,
    torch.float8_e5m2fnuz: torch.uint8,
}
# Complex numbers are held as pairs, in one more dimension.
_PAIRS = {torch.complex64: torch.float32, torch.complex128: torch.float64}

_MOST_DIMENSIONS = 8


class TensorType(NamedTuple):
    """The dtype and shape of a variable in a program."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Held(NamedTuple):
    """How a program holds tensors of one torch type."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    type: TensorType

    @property
    def plain(self) -> bool:
        """Does the program hold it as it is? Otherwise only foreign ops can use it."""
        return self.dtype in COMPUTED and self.shape == self.type.shape

    def to_torch(self, tensor: torch.Tensor) -> torch.Tensor:
        """The torch tensor that shares the memory of a value of the program."""
        if self.plain:
            return tensor
        if self.dtype in _PAIRS:
            pairs = tensor.view(*self.shape, 2)
            return torch.view_as_complex(pairs)
        return tensor.view(self.shape).view(self.dtype)

    def from_torch(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same memory as the program holds it; the tensor must be dense."""
        if self.plain:
            return tensor
        if self.dtype in _PAIRS:
            return torch.view_as_real(tensor.resolve_conj()).reshape(self.type.shape)
        return tensor.view(_CARRIED.get(self.dtype, self.dtype)).reshape(self.type.shape)


def held(tensor: torch.Tensor) -> Held:
    """How a program holds such tensors. `tensor` may be fake; its sizes must be known."""
    check(tensor)
    shape = tuple(int(size) for size in tensor.shape)
    dtype, sizes = tensor.dtype, shape
    if dtype in _PAIRS:
        dtype, sizes = _PAIRS[dtype], (*shape, 2)
    dtype = _CARRIED.get(dtype, dtype)
    if dtype not in COMPUTED:
        raise NotSupported(f"a tensor of dtype {tensor.dtype}")
    if len(sizes) > _MOST_DIMENSIONS:
        count = 1
        for size in sizes:
            count *= size
        sizes = (count,)
    return Held(tensor.dtype, shape, TensorType(COMPUTED[dtype], sizes))


def check(tensor: torch.Tensor) -> None:
    """Raises unless the tensor is an ordinary one in the CPU's memory."""
    if tensor.device.type != "cpu":
        raise NotSupported(f"a tensor on the device '{tensor.device}'")
    if tensor.layout != torch.strided or tensor.is_quantized:
        kind = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise NotSupported(f"a {kind} tensor")


def is_dense(tensor: torch.Tensor) -> bool:
    """Are its elements in row-major order without gaps, as the executor wants them?"""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or a copy in row-major order."""
    return tensor.contiguous().resolve_conj().resolve_neg()


# The address of a tensor's elements; the fastest that torch has.
address: Callable[[torch.Tensor], int] = torch.Tensor.data_ptr
# The tensor that takes over a DLPack capsule.
adopt: Callable[[object], torch.Tensor] = torch._C._from_dlpack  # type: ignore[attr-defined]
