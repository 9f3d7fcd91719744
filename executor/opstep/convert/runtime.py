"""The functions that converted code calls: its name `_opstep` is this module."""

from __future__ import annotations

from typing import Any

from opstep import context, ops
from opstep.convert.branches import (
    Branch as branch,
    begin_and as begin_and,
    begin_chain as begin_chain,
    begin_or as begin_or,
    choose as choose,
    chosen as chosen,
    compare as compare,
    end_and as end_and,
    end_chain as end_chain,
    end_or as end_or,
    free as free,
    held as held,
    left as left,
    named as named,
    no as no,
    not_ as not_,
    otherwise as otherwise,
    read as read,
    truth as truth,
    yes as yes,
)
from opstep.convert.calls import call as call, changes, unwritable, writes as writes
from opstep.convert.loops import Each as each, Loop as loop
from opstep.convert.managers import manager as manager
from opstep.convert.merged_values import as_variables as value
from opstep.convert.number import BOOL, to_number
from opstep.convert.sequences import rows, sequence_of
from opstep.convert.state import Unset as unset, is_tensor as is_tensor, state
from opstep.convert.user_errors import error_here
from opstep.variable import Variable

__all__ = ["branch", "each", "loop"]

_NOW = {"numpy", "tolist", "backward", "clear_gradient", "__array__"}


# --- changes of Python's objects


def born(made: Any) -> Any:
    """Objects made here may be changed here."""
    if state.regions:
        state.regions[-1].born.append(made)
    return made


def grows(target: Any) -> None:
    """Called before `target += ...`."""
    if changes(read(target), "__iadd__"):
        writes(target)


def deleted(target: Any) -> Any:
    """A name that was deleted."""
    read(target)
    return unset("a deleted name")


def method(target: Any, name: str) -> Any:
    """`target.name`, which is about to be called."""
    target = value(target)
    if isinstance(target, Variable):
        if name == "item":
            return lambda: to_number(target)
        if name == "detach":
            return lambda: _detached(target)
        if name in _NOW:
            raise error_here(
                f"{name}() needs the value of '{target.name}' now, but it is there only when the "
                "program runs: return the tensor and do that outside"
            )
    elif state.regions and changes(target, name):
        writes(target)
    return getattr(target, name)


def _detached(x: Variable) -> Variable:
    copy = ops.assign(x)
    copy.stop_gradient = True
    return copy


# --- iteration and tests in Python


def spread(items: Any) -> Any:
    """The items that are unpacked into names or arguments."""
    items = value(items)
    return rows(items) if is_tensor(items) else items


def items(values: Any) -> Any:
    """The items of a comprehension, while the program is built."""
    found = value(values)
    sequence_of(found)
    return rows(found) if is_tensor(found) else found


def plain(test: Any) -> Any:
    """A test that only Python can make."""
    test = value(test)
    if is_tensor(test):
        raise error_here(
            f"'{test.name}' is known only when the program runs, but a comprehension or 'case' "
            "chooses while it is built: use layers.where, or a 'for' with an 'if'"
        )
    return test


def subject(given: Any) -> Any:
    """The subject of a `match`."""
    given = value(given)
    if is_tensor(given):
        raise error_here(
            f"'{given.name}' is known only when the program runs, but a 'match' chooses while it "
            "is built: use 'if' and 'elif'"
        )
    return given


def formatted(given: Any) -> Any:
    """A value for an f-string or `%`."""
    given = value(given)
    for part in given if isinstance(given, tuple) else (given,):
        if is_tensor(part):
            raise unwritable(part)
    return given


# --- errors in a run


def check(test: Variable, message: Any) -> None:
    """An `assert` of a tensor."""
    ops.assert_(truth(test), message=str(message) or None)


def fails(error: Any) -> bool:
    """A `raise` that only some runs of the program reach: the program will raise."""
    if not state.regions:
        return False
    kind = error if isinstance(error, type) else type(error)
    message = "" if isinstance(error, type) else str(error)
    never = ops.fill(shape=[], dtype=BOOL, value=False)
    state.regions[-1].fails = True
    ops.assert_(never, message=f"{kind.__name__}: {message}" if message else kind.__name__)
    return True


class attempt:
    """A `try`: it catches what happens while the program is built, but not in its runs."""

    def __init__(self) -> None:
        self._count = _ops_made()

    def end(self, line: int) -> None:
        if _ops_made() != self._count:
            raise error_here(
                f"the 'try' on line {line} would catch nothing of what happens when the program "
                "runs: test before with an 'if', or put the 'try' around the call of the converted "
                "function"
            )


def _ops_made() -> int:
    return len(context.default_main_program()._core.op_names())
