"""Elements of tensors as text, aligned in rows and columns as NumPy does it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from opstep_server import values
from opstep_server.wire import program_pb2

# Formats of an element: short, exact, hexadecimal, decimal, fixed, with an exponent, as bits, as a
# character.
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
# Stands for elements that are left out.
GAP = "…"

# Beyond these limits an exponent is easier to read.
_LARGE, _SMALL = 1e6, 1e-3
_DIGITS = 4


# Rows of rows of … elements; a gap at any depth.
Nested = Sequence["Nested | str"]


def nested(flat: Sequence[str], dims: Sequence[int]) -> Nested:
    """All elements of a tensor, row-major."""
    if len(dims) <= 1:
        return flat
    size = math.prod(dims[1:])
    return [nested(flat[i * size : (i + 1) * size], dims[1:]) for i in range(dims[0])]


def rows(tree: Nested, width: int) -> list[str]:
    """The rows with brackets; a row wider than the screen continues on the next line."""
    column = max(map(len, _leaves(tree)), default=0)
    lines = _rows(tree, column, 1, width)
    return ["[" + lines[0][1:], *lines[1:]]


def _leaves(tree: Nested) -> Iterator[str]:
    for each in tree:
        if isinstance(each, str):
            yield each
        else:
            yield from _leaves(each)


def _rows(tree: Nested, column: int, depth: int, width: int) -> list[str]:
    """The rows with `column` blanks for outer brackets, and their own brackets closed."""
    if all(isinstance(each, str) for each in tree):
        return _one_row([str(each).rjust(column) for each in tree], depth, width)
    lines: list[str] = []
    for index, each in enumerate(tree):
        if isinstance(each, str):
            lines.append(" " * depth + each)
            continue
        inner = _rows(each, column, depth + 1, width)
        inner[0] = inner[0][:depth] + "[" + inner[0][depth + 1 :]
        if index > 0:
            lines += [""] * (_rank(each) - 1)
        lines += inner
    lines[-1] += "]"
    return lines


def _rank(tree: Nested) -> int:
    first = next((each for each in tree if not isinstance(each, str)), None)
    return 1 if first is None else 1 + _rank(first)


def _one_row(texts: list[str], depth: int, width: int) -> list[str]:
    indent = " " * depth
    lines = [indent]
    for text in texts:
        if lines[-1] != indent and len(lines[-1]) + 1 + len(text) > width - depth:
            lines.append(indent)
        lines[-1] += text if lines[-1] == indent else f" {text}"
    lines[-1] += "]"
    return lines


def texts(
    elements: Sequence[values.Scalar], dtype: program_pb2.DataType, form: Format = ""
) -> list[str]:
    """One text for each element, all in the same format."""
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
    # A number other than 0 is not shown as 0.
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


def scalar(value: bool | int | float, form: Format, dtype: program_pb2.DataType) -> str:
    """A single number."""
    if form == "":
        return values.number(value)
    # Most of these are counts and positions: all 16 digits would be harder to read.
    if dtype == program_pb2.INT64 and form in ("x", "b"):
        return hex(int(value)) if form == "x" else bin(int(value))
    return texts([value], dtype, form)[0]
