"""Elements of tensors as text, aligned in rows and columns as NumPy does it."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Literal

from opstep_server import values
from opstep_server.wire import program_pb2

# How an element is written: as one reads it, exactly, hexadecimal, decimal, fixed, with an
# exponent, as bits, as a character.
Format = Literal["", "r", "x", "d", "f", "e", "b", "c"]
FORMATS: dict[Format, str] = {
    "x": "hexadecimal; floats as they lie in memory",
    "d": "as whole numbers",
    "f": "with a decimal point",
    "e": "with an exponent",
    "b": "as bits",
    "c": "as characters",
    "r": "with all digits",
}
# In place of what is left out.
GAP = "…"

# Beyond these an exponent says more.
_LARGE, _SMALL = 1e6, 1e-3
_DIGITS = 4


def rows(flat: Sequence[str], dims: Sequence[int], width: int) -> list[str]:
    """Brackets around rows; one that is wider than the screen goes on below itself."""
    column = max((len(text) for text in flat), default=0)
    return _rows([text.rjust(column) for text in flat], list(dims), 0, width)


def _rows(flat: list[str], dims: list[int], depth: int, width: int) -> list[str]:
    if len(dims) <= 1:
        return _one_row(flat, depth, width)
    lines: list[str] = []
    size = math.prod(dims[1:])
    for index in range(dims[0]):
        part = flat[index * size : (index + 1) * size]
        inner = _rows(part, dims[1:], depth + 1, width)
        if index > 0 and len(dims) > 2:
            lines += [""] * (len(dims) - 2)
        if index == 0:
            inner[0] = inner[0][:depth] + "[" + inner[0][depth + 1 :]
        lines += inner
    if not lines:
        return [" " * depth + "[]"]
    lines[-1] += "]"
    return lines


def _one_row(flat: list[str], depth: int, width: int) -> list[str]:
    indent = " " * (depth + 1)
    lines = [" " * depth + "["]
    for index, text in enumerate(flat):
        if index and len(lines[-1]) + 1 + len(text) > width - depth - 2:
            lines.append(indent)
        lines[-1] += text if lines[-1] in (indent, " " * depth + "[") else f" {text}"
    lines[-1] += "]"
    return lines


def texts(
    elements: Sequence[values.Scalar], dtype: program_pb2.DataType, form: Format = ""
) -> list[str]:
    """One text for each element, all in the same manner."""
    if form in ("x", "b"):
        return [_bits(element, dtype, form) for element in elements]
    if form == "c":
        return [_character(element) for element in elements]
    if form == "r":
        return [values.exactly(element, dtype) for element in elements]
    if form == "d":
        return [_whole(element) for element in elements]
    if form in ("f", "e"):
        return [f"{float(element):.6{form}}" for element in elements]
    if any(isinstance(element, float) for element in elements):
        return _floats([float(element) for element in elements])
    return [str(element) for element in elements]


def _floats(elements: Sequence[float]) -> list[str]:
    sizes = [abs(element) for element in elements if math.isfinite(element) and element]
    largest = max(sizes, default=1.0)
    if all(size == int(size) for size in sizes) and largest < _LARGE:
        return [f"{e:.0f}." if math.isfinite(e) else f"{e} " for e in elements]
    if largest >= _LARGE or largest < _SMALL:
        return [f"{e:.{_DIGITS - 1}e}" if math.isfinite(e) else str(e) for e in elements]
    decimals = max(_DIGITS - max(math.floor(math.log10(largest)), 0), 1)
    return [_fixed(element, decimals) for element in elements]


def _fixed(element: float, decimals: int) -> str:
    if not math.isfinite(element):
        return str(element)
    text = f"{element:.{decimals}f}"
    if element == 0:
        return "0." + " " * decimals
    # What is not zero is not shown as such.
    return f"{element:.0e}" if float(text) == 0 else text


def _whole(element: values.Scalar) -> str:
    return str(int(element)) if math.isfinite(element) else str(element)


def _character(element: values.Scalar) -> str:
    code = int(element) if math.isfinite(element) else -1
    return repr(chr(code)) if 0 <= code < 0x110000 else str(element)


def _bits(element: values.Scalar, dtype: program_pb2.DataType, form: Format) -> str:
    """`0x7fc00000`, or the same as binary digits."""
    text = values.bits(element, dtype)
    if form == "x" or not text.startswith("0x"):
        return text
    return f"{int(text, 16):0{4 * (len(text) - 2)}b}"


def scalar(value: bool | int | float, form: Format) -> str:
    """A number that is in no tensor: Python's."""
    if form in ("", "r"):
        return values.number(value) if form == "" else repr(value)
    if isinstance(value, float) and form in ("x", "b"):
        return (
            value.hex()
            if form == "x"
            else f"{struct.unpack('<Q', struct.pack('<d', value))[0]:064b}"
        )
    if form == "x":
        return hex(value) if isinstance(value, int) else str(value)
    if form == "b":
        return bin(value) if isinstance(value, int) else str(value)
    return texts([value], program_pb2.FLOAT64, form)[0]
