"""Slices of a tensor that a view asks for, as expressions that the executor cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opstep_server import tensor_parts
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.tensor_parts import Part

# Elements per evaluation, so that the executor is never busy for long.
PART_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Subject:
    """A tensor, or the difference of two with the same shape."""

    text: str
    against: str
    shape: tuple[int, ...]

    def cut(self, subscripts: Sequence[str] = ()) -> str:
        """Cuts first and then computes, so that only visible elements are computed."""
        at = f"[{', '.join(subscripts)}]" if subscripts else ""
        if self.against:
            return f"({self.text}){at} * 1.0 - ({self.against}){at} * 1.0"
        return f"({self.text}){at}"

    def parts(self) -> Iterator[tuple[Part, str]]:
        """The parts of the tensor, each with its expression."""
        for part in tensor_parts.parts(self.shape, PART_ELEMENTS):
            yield part, self.cut(part.slices)


@dataclass(frozen=True)
class Run:
    """Indices along an axis: `count` of them, each `step` after the one before."""

    start: int
    step: int
    count: int

    @property
    def subscript(self) -> str:
        return f"{self.start}:{self.start + (self.count - 1) * self.step + 1}:{self.step}"


@dataclass(frozen=True)
class Plane:
    """Two axes, or fewer, along which a slice lies; the others have one index each."""

    rows: int | None
    columns: int | None
    at: tuple[int, ...]

    def subscripts(self, down: Run, across: Run) -> list[str]:
        runs = {self.rows: down.subscript, self.columns: across.subscript}
        return [runs.get(axis) or str(index) for axis, index in enumerate(self.at)]

    @property
    def turned(self) -> bool:
        """Whether the cut must be transposed."""
        return self.rows is not None and self.columns is not None and self.rows > self.columns


def plane(arguments: Arguments, shape: Sequence[int]) -> Plane:
    rank = len(shape)
    rows = arguments.natural("rows", rank - 2) if rank > 1 else None
    columns = arguments.natural("columns", rank - 1) if rank else None
    for name, axis in (("rows", rows), ("columns", columns)):
        if axis is not None and axis >= rank:
            raise RequestError(f"arguments.{name} is axis {axis}, but there are {rank} axes")
    if rows is not None and rows == columns:
        raise RequestError(f"rows and columns are both axis {rows}: choose two axes")
    at = arguments.integers("at") or [0] * rank
    if len(at) != rank:
        raise RequestError(f"arguments.at has {len(at)} indices, but there are {rank} axes")
    for axis, (index, size) in enumerate(zip(at, shape, strict=True)):
        if axis not in (rows, columns) and not 0 <= index < size:
            raise RequestError(f"index {index} is not within axis {axis} of size {size}")
    return Plane(rows, columns, tuple(at))


def run(arguments: Arguments, name: str, size: int, most: int) -> Run:
    """The indices from `rowStart`, `rowCount` and `maxRows`, or for columns; strided to fit."""
    start = min(arguments.natural(f"{name}Start", 0), size)
    count = min(arguments.natural(f"{name}Count", size), size - start)
    most = min(arguments.natural(f"max{name.capitalize()}s", most), most) or 1
    step = max(-(-count // most), 1)
    return Run(start, step, -(-count // step))
