"""The table of a tap's keys; settings files, options, help and docs come from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opstep_server import expr
from opstep_server.taps import quantities
from opstep_server.taps.quantities import shown

WHAT = ("stats", "histogram", "samples", "full")
DEFAULT_BINS = 64
DEFAULT_SAMPLES = 16
MAX_BINS = 4096
MAX_SAMPLES = 65536


@dataclass(frozen=True)
class TapKey:
    name: str
    # As text of a file.
    example: str
    doc: str
    # Converts the value; raises ValueError when it is invalid.
    read: Callable[[object], object]
    # The default, as text.
    default: str = ""


def text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{shown(value)} is not text")
    if len(value) > 4000 or not value.isprintable():
        raise ValueError(f"{shown(value)} is too long, or holds control characters")
    return value


def truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is neither true nor false")
    return value


def whole(least: int, most: int = (1 << 63) - 1) -> Callable[[object], object]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            up = f" up to {most}" if most < (1 << 63) - 1 else ""
            raise ValueError(f"{shown(value)} is not a whole number from {least}{up}")
        return value

    return read


def names(value: object) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(one, str) for one in listed):
        raise ValueError(f"{shown(value)} is not a list of names")
    return tuple(dict.fromkeys(listed))


def _what(value: object) -> tuple[str, ...]:
    found = names(value)
    for one in found:
        if one not in WHAT:
            hint = expr.suggest(one, WHAT) or f"there are {', '.join(WHAT)}"
            raise ValueError(f"'{one}' cannot be recorded: {hint}")
    if not found:
        raise ValueError(f"nothing is to be recorded: say one of {', '.join(WHAT)}")
    return found


def _chance(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ValueError(f"{shown(value)} is not a probability: write a number above 0 and up to 1")
    return float(value)


def _expression(value: object) -> str:
    source = text(value)
    try:
        expr.parse(source)
    except expr.ExprError as error:
        raise ValueError(f"{shown(value)} cannot be used: {error}") from None
    return source


def file_line(value: object) -> tuple[str, int]:
    """`train.py:41`."""
    file, _, line = text(value).rpartition(":")
    if not file or not line.isascii() or not line.isdecimal() or not 0 < int(line) < 1 << 31:
        raise ValueError(f"{shown(value)} is not a place: write 'train.py:41'")
    return file, int(line)


def _listing(value: object) -> tuple[str, int]:
    """`main:12`, or the number alone for the first program."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f":{value}"
    program, _, line = text(value).rpartition(":")
    if not line.isascii() or not line.isdecimal() or not 0 < int(line) < 1 << 31:
        raise ValueError(f"{shown(value)} is not a line of a listing: write 'main:12'")
    return program, int(line)


# Which ops: exactly one of these.
PLACES = (
    TapKey(
        "ops",
        '"conv*"',
        "ops of that type, or whose names match, also those of gradients and optimizers; "
        "`grad:` takes gradients only",
        text,
    ),
    TapKey("line", '"train.py:41"', "the ops that this line made", file_line),
    TapKey("variable", '"fc_0.w"', "the ops that write this variable", text),
    TapKey("gradient_of", '"fc_0.w"', "the ops that make the gradient of this variable", text),
    TapKey("op", "12", "the op of that number, in the first program", whole(0, (1 << 31) - 1)),
    TapKey(
        "listing",
        '"main:12"',
        "the op on that line of a program's listing, whose line 1 is its heading",
        _listing,
    ),
)
TAP_KEYS = (
    TapKey("name", '"convs"', "what it is called in records and messages", text, "its place"),
    *PLACES,
    TapKey("gradients", "true", "with `line`: their gradients too", truth, "false"),
    TapKey(
        "what",
        '["stats"]',
        "of `stats`, `histogram`, `samples`, `full`; `full` alone has no statistics",
        _what,
        '["stats"]',
    ),
    TapKey("outputs", "true", "the ops' outputs", truth, "true, unless other values are said"),
    TapKey("inputs", "true", "the ops' inputs", truth, "false"),
    TapKey("value", '"out[0, :8]"', "the value of this expression", _expression),
    TapKey("bins", "64", "of the histogram", whole(1, MAX_BINS), str(DEFAULT_BINS)),
    TapKey(
        "samples",
        "16",
        "this many elements, always at the same places",
        whole(1, MAX_SAMPLES),
        str(DEFAULT_SAMPLES),
    ),
    TapKey("every", "100", "in every Nth run only", whole(1), "1"),
    TapKey("first", "10", "in the first runs only", whole(1), "all"),
    TapKey(
        "condition",
        '"isnan(out).any()"',
        "where this holds; with `gradient_of` or `variable`, `out` is that gradient or variable",
        _expression,
    ),
    TapKey("probability", "0.01", "with this chance", _chance, "1"),
    TapKey("seed", "7", "of the chance: the same seed takes the same runs", whole(0), "0"),
    TapKey("per_second", '"100/s"', "no more records than this", quantities.rate, "no limit"),
    TapKey("for", '"10m"', "for this time after it is set", quantities.seconds, "for ever"),
    TapKey("until", "2026-12-01T18:00:00Z", "to this moment", quantities.moment, "for ever"),
    TapKey("count", "1000", "up to this many records", whole(1), "no limit"),
    TapKey(
        "max_bytes", '"4MB"', "larger records are left out", quantities.size, "the queue's limit"
    ),
    TapKey("with_server", "true", "gone when the debug server is", truth, "false"),
    TapKey("enabled", "false", "set, but off", truth, "true"),
    TapKey("to", '["main"]', "the sinks that get its records", names, "all sinks"),
)
LIMIT_KEYS = (TapKey("memory", '"64MB"', "what waits for one sink", quantities.size, '"64MB"'),)
BY_NAME = {key.name: key for key in TAP_KEYS}
