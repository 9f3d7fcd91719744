"""Commands that print and change values: print, display, set."""

from __future__ import annotations

import itertools
import math
import re

from opstep_server import assignment, expr, values
from opstep_server.cli.commands import focus, layout_commands
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output import array_text
from opstep_server.cli.output.array_text import FORMATS, Format
from opstep_server.cli.sessions.displays import Display
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb, program_pb2

# Of a tensor with more elements only the corners are shown.
_ELEMENTS = 200
# The same for more rows.
_ROWS = 40
# The elements that surely fit into one reply of the executor.
_MOST = 100_000
# How many indices are shown at each end: of rows and columns, and of the axes before them.
_EDGE, _OUTER_EDGE = 3, 1
_NO_DISPLAY = "nothing is displayed: 'display EXPRESSION' shows it at each stop"
# gdb's `set var x = 3`.
_VAR = re.compile(r"^var(?:iable)?\s+(?=[\w\"'])")
_OPTIONS = re.compile(r"/(?P<form>[a-z]?)(?P<count>\d*)(?P<rest>\S*)\s*")


async def print_(session: TerminalSession, args: str) -> None:
    form, most, text = options(args)
    if not text:
        raise DebuggerError("write 'print EXPRESSION', such as 'print out.mean(), x[0, :4]'")
    problem: DebuggerError | None = None
    for part in expr.split(text):
        try:
            lines = await shown(session, part, form, most)
        except DebuggerError as error:
            # Later expressions may have a value. The last error is reported by the caller.
            if problem is not None:
                session.screen.error(str(problem))
            problem = error
            continue
        for line in lines:
            session.screen.line(line)
        session.show_notes()
    if problem is not None:
        raise problem


def options(args: str) -> tuple[Format, int, str]:
    """`/x500 w` to the format, the number of elements to show in full, and the expressions."""
    match = _OPTIONS.match(args)
    if match is None:
        return "", _ELEMENTS, args.strip()
    form = next((known for known in FORMATS if known == match["form"]), None)
    if match["rest"] or (form is None and match["form"]):
        known = ", ".join(f"/{letter} ({doc})" for letter, doc in FORMATS.items())
        raise DebuggerError(f"'{match[0].strip()}' is not a format: there are {known}, and /500")
    most = int(match["count"] or _ELEMENTS)
    if not 0 < most <= _MOST:
        raise DebuggerError(f"from 1 to {_MOST} elements can be shown: 'dump' writes them all")
    return form or "", most, args[match.end() :].strip()


async def shown(
    session: TerminalSession, text: str, form: Format = "", most: int = _ELEMENTS
) -> list[str]:
    """`x = float32[2, 3] mean …` and its elements below."""
    value = await focus.evaluate(session, text, max_elements=most)
    kind = value.WhichOneof("kind")
    if kind == "list" and any(each.HasField("tensor") for each in value.list.values):
        # A slot with several variables.
        parts = [f"{text}[{index}]" for index in range(len(value.list.values))]
        return [line for part in parts for line in await shown(session, part, form, most)]
    if kind != "tensor" or not value.tensor.dims:
        dtype = await _dtype(session, text) if form and kind in ("i", "f") else None
        return [f"{text} = {_scalar(value, form, dtype)}"]
    tensor = value.tensor
    head = f"{text} = {values.type_name(tensor.dtype, tensor.dims)}"
    count = math.prod(tensor.dims)
    if count == 0:
        return [f"{text} = {values.describe(value)}" if tensor.sequences else f"{head} empty"]
    if len(tensor.dims) == 1 and count <= values.SMALL and not tensor.sequences:
        elements = values.elements(tensor)
        row = (
            array_text.texts(elements, tensor.dtype, form) if form else map(values.number, elements)
        )
        return [f"{head} [{', '.join(row)}]"]
    head = f"{text} = {values.describe(pb.Value(tensor=_without_elements(tensor)))}"
    # With a requested number, the tensor is shown in full, with any number of rows.
    rows = count // tensor.dims[-1]
    if count <= most and (rows <= _ROWS or most != _ELEMENTS):
        flat = array_text.texts(values.elements(tensor), tensor.dtype, form)
        tree = _in_sequences(array_text.nested(flat, tensor.dims), tensor)
    else:
        tree = await _corners(session, text, tensor, form)
    return [head, *array_text.rows(tree, session.screen.width)]


async def _dtype(session: TerminalSession, text: str) -> program_pb2.DataType:
    """The dtype of an expression with one number, whose value comes without it."""
    name = (await focus.evaluate(session, f"dtype({text})")).s
    return values.dtype_of(name)


def _scalar(value: pb.Value, form: Format, dtype: program_pb2.DataType | None = None) -> str:
    kind = value.WhichOneof("kind")
    if kind == "tensor":
        (element,) = values.elements(value.tensor)
        text = (
            array_text.texts([element], value.tensor.dtype, form)[0]
            if form
            else values.number(element)
        )
        return f"{values.type_name(value.tensor.dtype, [])} {text.strip()}"
    if form and kind in ("i", "f"):
        if kind == "i":
            return array_text.scalar(value.i, form, dtype or program_pb2.INT64)
        return array_text.scalar(value.f, form, dtype or program_pb2.FLOAT64)
    if form and kind == "list":
        return "[" + ", ".join(_scalar(each, form) for each in value.list.values) + "]"
    return values.describe(value)


def _without_elements(tensor: pb.Tensor) -> pb.Tensor:
    return pb.Tensor(
        dtype=tensor.dtype, dims=tensor.dims, summary=tensor.summary, sequences=tensor.sequences
    )


def _in_sequences(rows: array_text.Nested, tensor: pb.Tensor) -> array_text.Nested:
    """The rows of a ragged variable sequence by sequence, when all lengths came along."""
    inner = tensor.sequences[-1] if tensor.sequences else None
    if inner is None or len(inner.lengths) != inner.count:
        return rows
    ends = list(itertools.accumulate(inner.lengths))
    return [rows[end - length : end] for end, length in zip(ends, inner.lengths, strict=True)]


async def _corners(
    session: TerminalSession, text: str, tensor: pb.Tensor, form: Format
) -> array_text.Nested:
    """The ends of each long axis, with a gap between them; the rest stays in the executor."""
    dims = list(tensor.dims)
    cuts = [_cut(size, axis >= len(dims) - 2) for axis, size in enumerate(dims)]
    found: dict[tuple[int, ...], values.Scalar] = {}
    for parts in itertools.product(*cuts):
        slices = ", ".join(f"{first}:{last}" for first, last in parts)
        part = (await focus.evaluate(session, f"({text})[{slices}]", max_elements=_MOST)).tensor
        positions = itertools.product(*(range(first, last) for first, last in parts))
        found.update(zip(positions, values.elements(part), strict=True))
    texts = array_text.texts(list(found.values()), tensor.dtype, form)
    written = dict(zip(found, texts, strict=True))

    def below(position: tuple[int, ...]) -> array_text.Nested:
        tree: list[array_text.Nested | str] = []
        for number, (first, last) in enumerate(cuts[len(position)]):
            if number > 0:
                tree.append(array_text.GAP)
            inside = [(*position, index) for index in range(first, last)]
            deepest = len(position) + 1 == len(dims)
            tree += [written[each] if deepest else below(each) for each in inside]
        return tree

    return below(())


def _cut(size: int, inner: bool) -> list[tuple[int, int]]:
    edge = _EDGE if inner else _OUTER_EDGE
    return [(0, size)] if size <= 2 * edge + 1 else [(0, edge), (size - edge, size)]


# ---- display -------------------------------------------------------------------------------------


async def display(session: TerminalSession, args: str) -> None:
    form, _, text = options(args)
    if not text:
        if not session.displays.all:
            raise DebuggerError(_NO_DISPLAY)
        session.stop  # noqa: B018  # Raises when there is nothing to show.
        for each in session.displays.all.values():
            each.told = ""
        await session.displays.show(session)
        return
    for part in expr.split(text):
        new = session.displays.add(Display(part, form))
        if session.running and session.stopped is not None:
            await session.displays.show(session, new)
        else:
            session.screen.line(f"{new.number}: {new.text}, at each stop")


async def undisplay(session: TerminalSession, args: str) -> None:
    if not args and session.displays.all and not await session.sure("display nothing any more?"):
        return
    numbers = args.split()
    for number in numbers:
        if not number.isdecimal() or int(number) not in session.displays.all:
            raise DebuggerError(f"there is no display {number}: see 'info display'")
    gone = list(dict.fromkeys(map(int, numbers))) or list(session.displays.all)
    removed = [session.displays.all.pop(number) for number in gone]
    if len(removed) == 1:
        session.screen.line(f"{removed[0].number}: {removed[0].text} is no longer displayed")
    else:
        count = f"{len(removed)} expressions are no longer displayed"
        session.screen.line(count if removed else _NO_DISPLAY)


async def info_display(session: TerminalSession, pattern: str) -> None:
    if not session.displays.all:
        session.screen.line(_NO_DISPLAY)
    for each in session.displays.all.values():
        form = f"/{each.form}" if each.form else ""
        session.screen.line(f"{each.number}: {each.text}{' ' + form if form else ''}")


# ---- set -----------------------------------------------------------------------------------------


async def set_(session: TerminalSession, args: str) -> None:
    if layout_commands.setting(session, args):
        return
    args = _VAR.sub("", args)
    parts = assignment.assignment(assignment.spelt_out(args) or args)
    session.stop  # noqa: B018  # Raises when there is nothing to change.
    if parts is None:
        raise DebuggerError("write 'set VARIABLE = EXPRESSION', or a part: 'set w[0, :5] = 0'")
    target, value = parts
    await focus.note(session, value)
    before = await focus.evaluate(session, target, max_elements=values.SMALL)
    after = await session.debugger.assign(
        session.thread.id, focus.frame(session), target, value, op=focus.walked(session)
    )
    session.screen.line(f"{target}: {_brief(before)} → {_brief(after, before)}")


def _brief(value: pb.Value, beside: pb.Value | None = None) -> str:
    """The value in one line; without its type beside another value of that type."""
    text = values.describe(value)
    if beside is None or value.WhichOneof("kind") != "tensor":
        return text
    head = values.type_name(value.tensor.dtype, value.tensor.dims)
    return text.removeprefix(head).strip() or text


_FORMATS = "\n".join(f"  /{form}  {doc}" for form, doc in FORMATS.items())

COMMANDS = (
    Command(
        "print", ("p", "pp"), "print [/FORMAT] EXPRESSION[, EXPRESSION…]",
        "show the value of expressions",
        "Tensors of more than 200 elements are shown by their corners; 'print/5000 w' shows "
        "that many.\n" + _FORMATS + "\nAn expression alone does the same. See 'help expressions'.",
        print_, "expression", form=True,
    ),
    Command(
        "display", (), "display [/FORMAT] [EXPRESSION…]",
        "show the value of expressions now and at each stop",
        "Without any, shows all that are displayed. 'info display' lists them.",
        display, "expression", form=True,
    ),
    Command(
        "undisplay", (), "undisplay [NUMBER…]",
        "no longer show an expression at each stop", "Without a number, none of them.",
        undisplay, "display",
    ),
    Command(
        "set", (), "set VARIABLE[SLICE] = EXPRESSION",
        "change a variable, or a part of one",
        "The ops that run next see it: 'set fc_0.w[0, :5] = 0', 'set loss = loss / 2'.\n"
        "'set' may be left out, and 'w *= 0', 'w[0] += 1' do what they do in NumPy.\n"
        "A variable that stays in the scope keeps it after the run.\n"
        "'set pagination off' no longer shows long output in pages.",
        set_, "expression",
    ),
)  # fmt: skip
