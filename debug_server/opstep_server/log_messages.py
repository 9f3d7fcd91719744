"""Log messages: `loss {loss.mean():.3f} at {step}` parsed to pieces, and records as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opstep_server import expr, values
from opstep_server.model import DebuggerError
from opstep_server.wire import debug_pb2 as pb

MAX_LENGTH = 4000
MAX_PIECES = 50

_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class MessageTemplate:
    pieces: tuple[pb.LogMessage.Piece, ...] = ()
    # The format of each piece, as after the colon of an f-string; "" = the default.
    formats: tuple[str, ...] = ()

    def message(self) -> pb.LogMessage:
        return pb.LogMessage(pieces=self.pieces)

    def text(self, parts: Sequence[pb.LogPart]) -> str:
        """The line of a record, whose parts are the values of the pieces."""
        # A record may still come from an older message.
        formats = self.formats if len(self.formats) == len(parts) else ("",) * len(parts)
        return "".join(_part(part, spec) for part, spec in zip(parts, formats, strict=True))


def parse(text: str) -> MessageTemplate:
    """Braces hold expressions; `{{` and `}}` are braces."""
    if len(text) > MAX_LENGTH:
        raise DebuggerError(f"the log message is longer than {MAX_LENGTH} characters")
    pieces: list[pb.LogMessage.Piece] = []
    formats: list[str] = []
    plain = ""
    at = 0

    def flush() -> None:
        nonlocal plain
        if plain:
            pieces.append(pb.LogMessage.Piece(text=plain))
            formats.append("")
        plain = ""

    while at < len(text):
        if text[at : at + 2] in ("{{", "}}"):
            plain += text[at]
            at += 2
        elif text[at] == "}":
            raise DebuggerError(f"there is no {{ before the }} at column {at + 1}: write }}}}")
        elif text[at] == "{":
            flush()
            source, spec, end = _value(text, at)
            pieces.append(pb.LogMessage.Piece(value=_parse_value(source, at)))
            formats.append(spec)
            at = end
        else:
            plain += text[at]
            at += 1
    flush()
    if len(pieces) > MAX_PIECES:
        raise DebuggerError(f"the log message has more than {MAX_PIECES} pieces")
    return MessageTemplate(tuple(pieces), tuple(formats))


def _value(text: str, start: int) -> tuple[str, str, int]:
    """The expression in the brace that opens at `start`, its format, and where the brace ends."""
    depth, quote, colon = 0, "", -1
    at = start + 1
    while at < len(text):
        c = text[at]
        if quote:
            if c == "\\":
                at += 1
            elif c == quote:
                quote = ""
        elif c in "'\"" and colon < 0:
            quote = c
        elif c == "}" and depth == 0:
            end = at if colon < 0 else colon
            spec = "" if colon < 0 else text[colon + 1 : at]
            _check_format(spec)
            return text[start + 1 : end], spec, at + 1
        elif c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            depth -= 1
        elif c == ":" and depth == 0 and colon < 0:
            colon = at
        at += 1
    raise DebuggerError(f"the {{ at column {start + 1} is never closed: write {{{{ for a brace")


def _parse_value(source: str, brace: int) -> pb.Expr:
    if not source.strip():
        raise DebuggerError(f"there is no expression in the braces at column {brace + 1}")
    return expr.parse(source)


def _check_format(spec: str) -> None:
    for sample in (1.5, 1, "s"):
        try:
            format(sample, spec)
        except (ValueError, OverflowError, MemoryError):
            continue
        # An f-string's `{x:1000000000}` would fill the memory.
        if max((int(digits) for digits in _digits(spec)), default=0) <= 1000:
            return
    raise DebuggerError(f"'{spec}' is not a format: write one as in an f-string, such as .3f")


def _digits(spec: str) -> list[str]:
    return "".join(c if c.isdecimal() else " " for c in spec).split()


def _part(part: pb.LogPart, spec: str) -> str:
    kind = part.WhichOneof("kind")
    if kind == "text":
        return part.text
    if kind == "error":
        return f"<{part.error}>"
    value = _scalar(part.value)
    if value is None:
        return values.describe(part.value)
    if not spec:
        return value if isinstance(value, str) else values.number(value)
    try:
        return format(value, spec)
    except (ValueError, OverflowError):
        return f"<'{spec}' does not fit {value!r}>"


def _scalar(value: pb.Value) -> bool | int | float | str | None:
    """The value as a number or text, also of a tensor with one element; None for larger ones."""
    kind = value.WhichOneof("kind")
    if kind == "b":
        return value.b
    if kind == "i":
        return value.i
    if kind == "f":
        return value.f
    if kind == "s":
        return value.s
    if kind == "tensor" and math.prod(value.tensor.dims) == 1:
        known = values.elements(value.tensor)
        return known[0] if known else None
    return None
