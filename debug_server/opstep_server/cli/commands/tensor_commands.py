"""Commands about one tensor or two: summary, hist, heat, diff, dump."""

from __future__ import annotations

import math

from opstep_server import expr, tensor_parts, values
from opstep_server.cli.commands import focus, heat_map, tensor_comparison, tensor_dump
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output.styled_text import FAINT, FAULT, NAME
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb, program_pb2

_PERCENTILES = (1, 25, 50, 75, 99)
# With more elements, percentiles take too long.
_SORTABLE = 1 << 24
_NONE = "none"
_BINS, _MOST_BINS = 20, 200
# The end of a bar, in eighths of a character.
_EIGHTHS = " ▏▎▍▌▋▊▉█"


async def tensor(session: TerminalSession, text: str, usage: str) -> pb.Tensor:
    """The tensor of the expression, with at least one element."""
    session.stop  # noqa: B018  # Raises when there is nothing to look at.
    if not text:
        raise DebuggerError(f"write '{usage}'")
    value = await focus.evaluate(session, text, max_elements=1)
    if value.WhichOneof("kind") != "tensor":
        word = usage.partition(" ")[0]
        raise DebuggerError(f"'{word}' is for tensors, and {text} is one value: 'print' shows it")
    if not math.prod(value.tensor.dims):
        what = values.type_name(value.tensor.dtype, value.tensor.dims)
        raise DebuggerError(f"{text} is {what}: it has no elements")
    return value.tensor


async def summary(session: TerminalSession, args: str) -> None:
    about = await tensor(session, args, "summary VARIABLE")
    found = about.summary
    count = found.count
    floats = about.dtype in values.FLOATS
    each = values.element_bytes(about.dtype)
    session.screen.line(f"{args}: {values.tensor_type(about)}", "bold")
    plural = "" if count == 1 else "s"
    rows = [("size", f"{count} element{plural}, {each * count} bytes, row-major")]
    if about.dtype == program_pb2.BOOL:
        rows.append(("true", _share(count - found.zeros, count)))
    elif found.nan + found.inf < count:
        for what, number in (("min", found.min), ("max", found.max)):
            shown = values.number(number if floats else int(number))
            at = await focus.first_position(session, args, about.dims, f"{{}} == {number!r}")
            rows.append((what, f"{shown}{at}"))
        rows += [("mean", values.number(found.mean)), ("std", values.number(found.std))]
        if not found.nan + found.inf and 1 < count <= _SORTABLE:
            rows.append(("percentiles", await _percentiles(session, args)))
    if about.dtype != program_pb2.BOOL:
        rows.append(("zeros", _share(found.zeros, count)))
    for name, bad, test in (("NaN", found.nan, "isnan"), ("Inf", found.inf, "isinf")):
        if floats:
            text = _share(bad, count)
            if bad:
                at = await focus.first_position(session, args, about.dims, test + "({})")
                text += f", the first{at}"
            rows.append((name, text))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        fault = FAULT if name in ("NaN", "Inf") and text != _NONE else ""
        session.screen.painted([(NAME, f"  {name:<{width}}  "), (fault, text)])


async def _percentiles(session: TerminalSession, text: str) -> str:
    wanted = ", ".join(map(str, _PERCENTILES))
    value = await focus.evaluate(
        session, f"percentile({text}, [{wanted}])", max_elements=len(_PERCENTILES)
    )
    found = zip(_PERCENTILES, values.elements(value.tensor), strict=True)
    return ", ".join(f"{percent} %: {values.number(number)}" for percent, number in found)


def _share(part: int, whole: int) -> str:
    return f"{part}, {100 * part / whole:.3g} %" if part else _NONE


# ---- hist ----------------------------------------------------------------------------------------


async def hist(session: TerminalSession, args: str) -> None:
    usage = "hist VARIABLE [BINS]"
    text, bins = _with_number(args, _BINS)
    if not 1 <= bins <= _MOST_BINS:
        raise DebuggerError(f"a histogram has from 1 to {_MOST_BINS} bins, not {bins}")
    about = await tensor(session, text, usage)
    if about.summary.nan + about.summary.inf == about.summary.count:
        raise DebuggerError(f"none of the elements of {text} is a finite number")
    low, high = about.summary.min, about.summary.max
    whole = about.dtype not in values.FLOATS
    if whole and high - low < bins:
        # One bin for each number.
        low, high = low - 0.5, high + 0.5
        bins = round(high - low)
    elif low == high:
        bins = 1
    counts = [0] * bins
    for each in tensor_parts.parts(about.dims, focus.PART_ELEMENTS):
        call = f"histogram({each.cut(text)}, {bins}, [{low!r}, {high!r}])"
        part = (await focus.evaluate(session, call, max_elements=bins)).tensor
        counts = [a + int(b) for a, b in zip(counts, values.elements(part), strict=True)]
    one_each = whole and high - low == bins
    edges = [low + (high - low) * i / bins for i in range(bins + 1)]
    names = [values.number(round(edge + 0.5) if one_each else edge) for edge in edges[:-1]]
    session.screen.line(f"{text} = {values.describe(pb.Value(tensor=about))}")
    _bars(session, names, counts)
    if not one_each and bins > 1:
        session.screen.line(f"  {values.number(edges[-1]):>{max(map(len, names))}}")


def _with_number(args: str, default: int) -> tuple[str, int]:
    """`w[0, 1] 30`: the text and a number as its last word, if there is one."""
    text, _, last = args.rpartition(" ")
    if text and last.isdecimal():
        return text.strip(), int(last)
    return args, default


def _bars(session: TerminalSession, names: list[str], counts: list[int]) -> None:
    width, digits = max(map(len, names)), len(str(max(counts)))
    room = max(10, min(session.screen.width, 100) - width - digits - 7)
    for name, count in zip(names, counts, strict=True):
        drawn = bar(count / max(counts), room).ljust(room)
        session.screen.painted(
            [("", f"  {name:>{width}} "), (FAINT, "│"), (NAME, drawn), ("", f" {count:>{digits}}")]
        )


def bar(part: float, room: int) -> str:
    """A bar for this part of the room; a part above 0 is never shown as empty."""
    eighths = max(round(part * room * 8), 1 if part else 0)
    full, rest = divmod(eighths, 8)
    return _EIGHTHS[8] * full + (_EIGHTHS[rest] if rest else "")


# ---- diff, heat, dump ----------------------------------------------------------------------------


async def diff(session: TerminalSession, args: str) -> None:
    session.stop  # noqa: B018  # Raises when there is nothing to look at.
    a, b = _two(args)
    await tensor_comparison.compare(session, a, b)


def _two(args: str) -> tuple[str, str]:
    """`a, b`, or `a b` when neither contains blanks."""
    usage = DebuggerError("write 'diff A B', or 'diff A, B' when they have blanks in them")
    if not args:
        raise usage
    try:
        parts = expr.split(args)
    except expr.ExprError:
        parts = []
        words = args.split()
        for cut in range(1, len(words)):
            halves = [" ".join(words[:cut]), " ".join(words[cut:])]
            if all(_is_expression(half) for half in halves):
                parts = halves
                break
    if len(parts) != 2:
        raise usage
    return parts[0], parts[1]


def _is_expression(text: str) -> bool:
    try:
        expr.parse(text)
    except expr.ExprError:
        return False
    return True


async def heat_(session: TerminalSession, args: str) -> None:
    about = await tensor(session, args, "heat VARIABLE[SLICE]")
    await heat_map.show(session, args, about)


async def dump(session: TerminalSession, args: str) -> None:
    text, _, file = args.rpartition(" ")
    over = file == "!"
    if over:
        text, _, file = text.strip().rpartition(" ")
    session.stop  # noqa: B018  # Raises when there is nothing to look at.
    if not text.strip() or not file:
        raise DebuggerError("write 'dump VARIABLE FILE.npy'")
    await tensor_dump.dump(session, text.strip(), file, over)


COMMANDS = (
    Command(
        "summary", (), "summary VARIABLE",
        "show a tensor in figures: extremes, mean, percentiles, zeros, NaN and Inf",
        "Any expression will do: 'summary fc_0.w[0]', 'summary grad(loss)'.\n"
        "min, max, mean and std are over the finite elements.", summary, "expression",
    ),
    Command(
        "hist", (), "hist VARIABLE [BINS]",
        "show how the elements are spread, as bars", f"BINS is {_BINS} unless it is given.",
        hist, "expression",
    ),
    Command(
        "heat", (), "heat VARIABLE[SLICE]",
        "show a matrix as an area of colours",
        "Of a large one every Nth row and column is shown. NaN and Inf stand out.\n"
        "Where there are no colours, characters stand for values.", heat_, "expression",
    ),
    Command(
        "diff", (), "diff A B",
        "compare two tensors: how many elements differ, where, and by how much",
        "'diff A, B' when there are blanks in them. NaN and NaN count as equal.\n"
        "Close is what NumPy's allclose takes for close.", diff, "expression",
    ),
    Command(
        "dump", (), "dump VARIABLE FILE [!]",
        "write a tensor to a file in NumPy's format, .npy",
        "With ! also over a file that is there.\n"
        "bfloat16, which NumPy does not know, is written as float32, which holds each of them.",
        dump, ("expression", "file"),
    ),
)  # fmt: skip
