"""Heat maps: a matrix as an area of colours, or of characters."""

from __future__ import annotations

import math
import shutil

from opstep_server import values
from opstep_server.cli.commands import focus
from opstep_server.cli.output.styled_text import FAULT, Line
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb

# From the smallest to the largest, without colours.
_RAMP = " .:-=+*#%@"
_NAN, _INF = "?", "!"
# The most rows without a terminal.
_ROWS = 24
# From dark to light, for values of one sign; through white at zero for both.
_RISING = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_SIGNED = ((5, 48, 97), (67, 147, 195), (247, 247, 247), (214, 96, 77), (103, 0, 31))


async def show(session: TerminalSession, text: str, tensor: pb.Tensor) -> None:
    dims = list(tensor.dims)
    if len(dims) == 1:
        dims = [1, *dims]
    elif len(dims) > 2:
        fewer = ", ".join(["0"] * (len(dims) - 2))
        what = values.type_name(tensor.dtype, tensor.dims)
        raise DebuggerError(f"{text} is {what}, no matrix: cut one, such as {text}[{fewer}]")
    colour = session.screen.sink.colour
    rows, columns = _room(session, colour)
    steps = [-(-dims[0] // rows), -(-dims[1] // columns)]
    cut = f"({text})[::{steps[1]}]"
    if len(tensor.dims) == 2:
        cut = f"({text})[::{steps[0]}, ::{steps[1]}]"
    part = (await focus.evaluate(session, cut, max_elements=rows * columns)).tensor
    elements = [float(element) for element in values.elements(part)]
    width = -(-dims[1] // steps[1])
    finite = [element for element in elements if math.isfinite(element)]
    session.screen.line(f"{text} = {values.describe(pb.Value(tensor=_bare(tensor)))}")
    scale = _Scale(min(finite, default=0.0), max(finite, default=0.0))
    for start in range(0, len(elements), width):
        row = elements[start : start + width]
        session.screen.painted(_colours(row, scale) if colour else [("", _letters(row, scale))])
    for line in _legend(scale, elements, colour):
        session.screen.painted(line)
    if max(steps) > 1:
        axes = zip(steps, ("row", "column"), strict=True)
        cuts = [f"every {_ordinal(step)} {axis}" for step, axis in axes if step > 1]
        session.screen.line(" and ".join(cuts))
        await _tell_unseen(session, text, tensor, elements)


async def _tell_unseen(
    session: TerminalSession, text: str, tensor: pb.Tensor, drawn: list[float]
) -> None:
    """Reports NaN and Inf that lie between the drawn cells."""
    kinds = (
        ("NaN", tensor.summary.nan, math.isnan, "isnan({})"),
        ("Inf", tensor.summary.inf, math.isinf, "isinf({})"),
    )
    for name, count, holds, test in kinds:
        if count and not any(holds(element) for element in drawn):
            at = await focus.first_position(session, text, tensor.dims, test)
            first = f", first{at}," if count > 1 else at
            be = "are" if count > 1 else "is"
            session.screen.line(f"{count} {name}{first} {be} not among the cells drawn")


def _bare(tensor: pb.Tensor) -> pb.Tensor:
    return pb.Tensor(dtype=tensor.dtype, dims=tensor.dims, summary=tensor.summary)


def _room(session: TerminalSession, colour: bool) -> tuple[int, int]:
    """How many rows and columns fit; a colour is two characters wide, to be a square."""
    if not colour:
        return _ROWS, session.screen.width - 2
    return max(shutil.get_terminal_size().lines - 6, 4), max(session.screen.width // 2 - 1, 8)


def _ordinal(step: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    end = "th" if step % 100 in (11, 12, 13) else ends.get(step % 10, "th")
    return f"{step}{end}"


class _Scale:
    """Maps a value to 0 (darkest) to 1 (lightest)."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.signed = low < 0 < high
        if self.signed:
            self.low, self.high = -max(-low, high), max(-low, high)
        self.colours = _SIGNED if self.signed else _RISING

    def part(self, value: float) -> float:
        span = self.high - self.low
        return (value - self.low) / span if span > 0 and math.isfinite(span) else 0.5

    def colour(self, value: float) -> str:
        at = self.part(value) * (len(self.colours) - 1)
        index = min(int(at), len(self.colours) - 2)
        pair = zip(self.colours[index], self.colours[index + 1], strict=True)
        red, green, blue = (round(a + (b - a) * (at - index)) for a, b in pair)
        return f"#{red:02x}{green:02x}{blue:02x}"

    def letter(self, value: float) -> str:
        return _RAMP[min(int(self.part(value) * len(_RAMP)), len(_RAMP) - 1)]


def _colours(row: list[float], scale: _Scale) -> Line:
    return [
        (f"on {scale.colour(value)}", "  ")
        if math.isfinite(value)
        else (f"{FAULT} reverse", (_NAN if math.isnan(value) else _INF) * 2)
        for value in row
    ]


def _letters(row: list[float], scale: _Scale) -> str:
    return (
        "|"
        + "".join(
            scale.letter(value) if math.isfinite(value) else _NAN if math.isnan(value) else _INF
            for value in row
        )
        + "|"
    )


def _legend(scale: _Scale, elements: list[float], colour: bool) -> list[Line]:
    parts = [i / 9 for i in range(10)]
    marks: Line = []
    for part in parts:
        value = scale.low + (scale.high - scale.low) * part
        marks.append((f"on {scale.colour(value)}", "  ") if colour else ("", scale.letter(value)))
    low, high = values.number(scale.low), values.number(scale.high)
    line: Line = [("", f"{low} "), *marks, ("", f" {high}")]
    if any(math.isnan(element) for element in elements):
        line += [("", "   "), (FAULT if colour else "", f"{_NAN} NaN")]
    if any(math.isinf(element) for element in elements):
        line += [("", "   "), (FAULT if colour else "", f"{_INF} Inf")]
    return [line]
