"""Commands that show a value's type and memory: whatis, x."""

from __future__ import annotations

import re

from opstep_server import assignment, expr, values
from opstep_server.cli.commands import focus
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output import array_text
from opstep_server.cli.output.array_text import FORMATS, Format
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb, program_pb2

_KINDS = {"b": "bool", "i": "int", "f": "float", "s": "string"}
# Bytes of a unit of memory, by gdb's letters.
_UNITS = {"b": 1, "h": 2, "w": 4, "g": 8}
# gdb's letters for formats with other names here.
_FORMATS: dict[str, Format] = {"t": "b", "u": "d"}
_OPTIONS = re.compile(r"/(?P<count>\d*)(?P<letters>[a-z]*)(?:\s+(?P<text>.*))?")
_USAGE = "write 'x/8 VARIABLE', 'x/8x VARIABLE' or, for memory, 'x/16xb VARIABLE'"
_MOST = 10_000
_ROW = 8
# The type and the bytes of a unit.
_AS = {
    1: (program_pb2.UINT8, 1),
    2: (program_pb2.INT16, 2),
    4: (program_pb2.INT32, 4),
    8: (program_pb2.INT64, 8),
}


async def whatis(session: TerminalSession, args: str) -> None:
    if not args:
        raise DebuggerError("write 'whatis EXPRESSION'")
    for part in expr.split(args):
        session.screen.line(f"{part}: {await _type(session, part)}")


async def _type(session: TerminalSession, text: str) -> str:
    try:
        # Also of a tensor that has no value yet.
        shape = (await focus.evaluate(session, f"shape({text})")).list.values
        dtype = (await focus.evaluate(session, f"dtype({text})")).s
        name = values.type_name(values.dtype_of(dtype), [each.i for each in shape])
        name = name.removesuffix("[]")
    except DebuggerError:
        value = await focus.evaluate(session, text)
        kind = value.WhichOneof("kind") or ""
        name = f"a list of {len(value.list.values)}" if kind == "list" else _KINDS.get(kind, kind)
    variable = assignment.root(expr.parse(text)) if assignment.is_plain(expr.parse(text)) else ""
    meant = await _variable(session, variable)
    return f"{name}, the variable {meant}" if meant and meant != text else name


async def _variable(session: TerminalSession, name: str) -> str:
    """The program's name for a name from Python."""
    names = await session.debugger.names(
        session.thread.id, focus.frame(session), focus.walked(session)
    )
    return next(
        (each.variable for each in names.python if each.name == name and not each.hidden), ""
    )


async def x(session: TerminalSession, args: str) -> None:
    match = _OPTIONS.fullmatch(args.strip())
    if match is None or not match["text"]:
        raise DebuggerError(_USAGE)
    count = int(match["count"] or 1)
    if not 0 < count <= _MOST:
        raise DebuggerError(f"from 1 to {_MOST} can be shown: 'dump' writes them all")
    form, unit = _form(match["letters"])
    text = match["text"].strip()
    dtype = values.dtype_of((await focus.evaluate(session, f"dtype({text})")).s)
    dtype, size = _AS[unit] if unit else (dtype, values.element_bytes(dtype))
    data = bytearray(count * size)
    total = await session.debugger.read_bytes_into(
        session.thread.id, focus.frame(session), text, 0, data, op=focus.walked(session)
    )
    there = min(count, total // size)
    read = pb.Tensor(dtype=dtype, dims=[there], data=bytes(data[: there * size]))
    cells = array_text.texts(values.elements(read), dtype, form)
    width = max(map(len, cells), default=0)
    for at in range(0, there, _ROW):
        place = f"+{at * size}:" if unit else f"{at}:"
        row = " ".join(cell.rjust(width) for cell in cells[at : at + _ROW])
        session.screen.line(f"{place:<7} {row}", "none")
    if there < count:
        what = f"units of {unit} byte{'' if unit == 1 else 's'}" if unit else "elements"
        session.screen.line(f"that is all: {text} has {there} {what}", "none")


def _form(letters: str) -> tuple[Format, int]:
    """`xb`: hexadecimal, bytes. The letter b is a unit of memory here, as in gdb."""
    form: Format = ""
    unit = 0
    for letter in letters:
        known = next((each for each in FORMATS if each == letter and letter != "b"), None)
        if letter in _UNITS and not unit:
            unit = _UNITS[letter]
        elif (found := _FORMATS.get(letter, known)) is not None and not form:
            form = found
        else:
            raise DebuggerError(f"'{letter}' is not a format of 'x': {_USAGE}")
    return form or ("x" if unit else ""), unit


COMMANDS = (
    Command(
        "whatis", ("ptype",), "whatis EXPRESSION[, EXPRESSION…]",
        "show the type of expressions",
        "Also of a variable that has no value yet, and which variable a name of Python means.",
        whatis, "expression",
    ),
    Command(
        "x", (), "x /FORMAT VARIABLE",
        "show the first elements of a tensor, or its memory",
        "FORMAT is how many, and a letter as for 'print', t for bits: 'x/8 w', 'x/8x w'.\n"
        "With b, h, w or g, memory in units of 1, 2, 4 or 8 bytes, hexadecimal if nothing else is "
        "said:\n'x/16xb w'.",
        x, "expression", form=True, only_form=True,
    ),
)  # fmt: skip
