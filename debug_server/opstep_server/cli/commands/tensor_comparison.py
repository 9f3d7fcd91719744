"""The comparison of two tensors, by expressions that the executor computes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from opstep_server import tensor_parts, values
from opstep_server.cli.commands import focus
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.tensor_parts import Part
from opstep_server.wire import debug_pb2 as pb

# A summary of this many elements takes no time.
_QUICK = 1 << 25
# NumPy's, of allclose.
_ABSOLUTE, _RELATIVE = 1e-8, 1e-5


@dataclass
class Found:
    different: int = 0
    far: int = 0
    first: list[int] | None = None
    largest: float = 0.0
    largest_at: list[int] = field(default_factory=list)
    relative: float = 0.0
    relative_at: list[int] = field(default_factory=list)


async def compare(session: TerminalSession, a: str, b: str) -> None:
    one, two = await _type(session, a), await _type(session, b)
    if math.prod(one[1]) <= _QUICK:
        shown = [await focus.evaluate(session, each, max_elements=1) for each in (a, b)]
        session.screen.table([(a, values.describe(shown[0])), (b, values.describe(shown[1]))])
    else:
        session.screen.table([(a, f"{one[0]}{one[1]}"), (b, f"{two[0]}{two[1]}")])
    dims = one[1]
    if dims != two[1]:
        session.screen.line("the shapes differ: cut slices of the same shape", "yellow")
        return
    if one[0] != two[0]:
        session.screen.line(f"the dtypes differ: {one[0]} and {two[0]}", "yellow")
    count = math.prod(dims)
    if not count:
        session.screen.line("both are empty")
        return
    found = Found()
    for part in tensor_parts.parts(dims, focus.PART_ELEMENTS):
        await _compare(session, part, a, b, found)
    await _tell(session, a, b, count, found)


async def _type(session: TerminalSession, text: str) -> tuple[str, list[int]]:
    """The dtype and shape, without a look at the elements."""
    shape = await focus.evaluate(session, f"shape({text})")
    dtype = await focus.evaluate(session, f"dtype({text})")
    return dtype.s, [size.i for size in shape.list.values]


async def _compare(session: TerminalSession, part: Part, one: str, two: str, found: Found) -> None:
    """Adds the differences in one part."""
    a, b = part.cut(one), part.cut(two)

    async def number(text: str) -> float:
        value = await focus.evaluate(session, text, max_elements=1)
        kind = value.WhichOneof("kind")
        if kind == "tensor":
            return float(values.elements(value.tensor)[0])
        return float(value.b if kind == "b" else value.i if kind == "i" else value.f)

    async def place_of(text: str) -> list[int]:
        return part.position(int(await number(f"argmax({text})"))) if part.dims else []

    unequal = f"(({a}) != ({b}))"
    # NaN is not equal to itself.
    both = f"(isnan({a}) & isnan({b}))"
    unequal = f"({unequal} & ~{both})"
    different = int(await number(f"{unequal}.sum()"))
    if not different:
        return
    found.different += different
    if found.first is None:
        found.first = await place_of(unequal)
    # The difference of whole numbers might overflow.
    apart = f"abs(({a}) * 1.0 - ({b}) * 1.0)"
    sized = f"where(isfinite({apart}), {apart}, 0.0)"
    if (largest := await number(f"{sized}.max()")) > found.largest:
        found.largest, found.largest_at = largest, await place_of(sized)
    # Relative to B; where B is 0 there is no relative difference.
    share = f"({sized} / where(({b}) == 0, inf, abs(({b}) * 1.0)))"
    share = f"where(isfinite({share}), {share}, 0.0)"
    if (relative := await number(f"{share}.max()")) > found.relative:
        found.relative, found.relative_at = relative, await place_of(share)
    near = f"({apart} <= {_ABSOLUTE} + {_RELATIVE} * abs(({b}) * 1.0))"
    found.far += int(await number(f"({unequal} & ~{near}).sum()"))


async def _tell(session: TerminalSession, a: str, b: str, count: int, found: Found) -> None:
    if found.first is None:
        session.screen.line(f"equal: all {count} elements", "bold green")
        return

    async def pair(index: list[int]) -> str:
        at = str(index) if index else ""
        one = await focus.evaluate(session, f"({a}){at}", max_elements=1)
        two = await focus.evaluate(session, f"({b}){at}", max_elements=1)
        return f"{_digits(one)} and {_digits(two)}"

    def at(index: list[int]) -> str:
        return f" at {index}" if index else ""

    share = f"{100 * found.different / count:.3g} %"
    rows = [
        ("different", f"{found.different} of {count} elements, {share}"),
        ("first", f"{await pair(found.first)}{at(found.first)}"),
    ]
    if found.largest:
        both = await pair(found.largest_at)
        rows.append(("largest difference", f"{found.largest:.4g}{at(found.largest_at)}: {both}"))
    if found.relative:
        both = await pair(found.relative_at)
        rows.append(("largest relative", f"{found.relative:.4g}{at(found.relative_at)}: {both}"))
    close = f"within {_ABSOLUTE:g} + {_RELATIVE:g} * abs(B)"
    if found.far:
        rows.append(("close", f"no: {found.far} of them not {close}"))
    else:
        rows.append(("close", f"yes: all are {close}"))
    session.screen.table(rows)


def _digits(value: pb.Value) -> str:
    """The number with all its digits: different numbers must not look the same."""
    if value.WhichOneof("kind") == "f" and math.isfinite(value.f):
        return values.as_number(value.f)
    return values.describe(value)
