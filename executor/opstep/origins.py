"""Origins of programs: may a variable of one program name a variable of another program?

Names are given by each program on its own, so that two programs have a 'fc_0.out' each. A variable
names the same thing in a clone or a part of its program, if the clone was made after it, in the
startup program, and in a program that was joined from its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from opstep import owners
from opstep.errors import error
from opstep.operators import Operators
from opstep.variable import Variable

if TYPE_CHECKING:
    from opstep.program import Program


class Origin(NamedTuple):
    """The part of another program in a program that was made from it."""

    limit: float
    """Ops with ids from here on were made later."""
    others: frozenset[str]
    """Names that mean something else here."""


def own_origin(program: Program) -> dict[int, Origin]:
    """The origin of a program that was not made from others."""
    return {program._serial: Origin(math.inf, frozenset())}


def copied(source: Program, part: Program) -> None:
    """The part was made from the source now."""
    ids = (i for block in source.blocks for i in source._core.op_ids(block.index))
    limit = max(ids, default=0) + 1
    for serial, origin in source._origins.items():
        part._origins[serial] = Origin(min(limit, origin.limit), origin.others)


def added(made: Program, first: Program, second: Program) -> None:
    """The ops of `second` were put behind those of `first`; what both had has another name now."""
    both = second.global_block().vars.keys() & first.global_block().vars.keys()
    feeds = set(second._core.feed_names())
    home = second.global_block()
    renamed = frozenset(n for n in both if n not in feeds and not home.var(n).persistable)
    for serial, origin in second._origins.items():
        made._origins.setdefault(serial, Origin(origin.limit, origin.others | renamed))


def names_in(program: Program, items: Any, what: str) -> list[str]:
    """The names of several variables, or of the only one."""
    if isinstance(items, str | Operators):
        items = [items]
    if not isinstance(items, Iterable):
        raise error(f"{what}: expected variables or their names, not a {type(items).__name__}")
    return [name_in(program, item, what) for item in items]


def name_in(program: Program, item: Any, what: str) -> str:
    """The name of a variable of the program, given as such, by name, or as that of the program
    that this one was made from; `what` begins the sentence if it is not."""
    if isinstance(item, str):
        return item
    if isinstance(item, Variable):
        if item.block.program is not program and not accepts(program, item):
            _refuse(program, item, what)
        return item.name
    if isinstance(item, Operators):
        raise error("a program has no runtime values: name its variables to be fed or fetched")
    raise error(f"expected a variable or its name, not a {type(item).__name__}")


def accepts(program: Program, item: Variable) -> bool:
    """Does a variable, of whatever program, name one of this program?"""
    if item.block.program is program or item in program._accepted:
        return True
    if not _is_shared(program, item) and not _is_inherited(program, item):
        return False
    program._accepted.add(item)
    return True


def _refuse(program: Program, item: Variable, what: str) -> NoReturn:
    hint = f"the variable of that name there is given by its name, '{item.name}'"
    if not program.global_block().has_var(item.name):
        hint = "give one of its own variables"
    raise error(
        f"{what} '{item.name}': it is a variable of program '{item.program.name}'"
        f"{owners.line_of(item.program)}, not of program '{program.name}'"
        f"{owners.line_of(program)}; {hint}"
    )


def _is_shared(program: Program, item: Variable) -> bool:
    """Do both programs keep the same value under that name?"""
    block = program.global_block()
    if not item.persistable or not block.has_var(item.name) or not block.var(item.name).persistable:
        return False
    return owners.same(
        owners.owner_of(program, item.name), owners.owner_of(item.program, item.name)
    )


def _is_inherited(program: Program, item: Variable) -> bool:
    """Was it there when the programs parted?"""
    for serial, origin in program._origins.items():
        other = item.program._origins.get(serial)
        if other is None or item.name in origin.others | other.others:
            continue
        first = _first_writer(item)
        return first < min(origin.limit, other.limit)
    return False


def _first_writer(item: Variable) -> int:
    """The id of the oldest op that writes it; 0 when there is none."""
    core = item.program._core
    found = 0
    for block in item.program.blocks[item.block.index :]:
        for op in core.op_ids(block.index):
            written = core.op(op)["outputs"].values()
            if any(item.name in names for names in written):
                found = min(found or op, op)
    return found
