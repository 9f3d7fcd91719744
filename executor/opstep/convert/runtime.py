"""What converted code calls: the name `_opstep` in it is this module."""

from __future__ import annotations

from collections.abc import (
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
    Set,
)
from typing import Any

import numpy as np

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
    no as no,
    not_ as not_,
    otherwise as otherwise,
    read as read,
    truth as truth,
    yes as yes,
)
from opstep.convert.calls import call as call
from opstep.convert.errors import error_here
from opstep.convert.loops import Each as each, Loop as loop
from opstep.convert.managers import manager as manager
from opstep.convert.merging import as_variables as value, text
from opstep.convert.number import BOOL, to_number
from opstep.convert.sequences import rows, sequence_of
from opstep.convert.state import Unset as unset, is_tensor as is_tensor, state
from opstep.variable import Variable

__all__ = ["branch", "each", "loop"]

_CHANGEABLE = (list, dict, set, bytearray, np.ndarray)
# Methods that only those have that can be changed.
_CHANGES = {
    name
    for more, less in ((MutableSequence, Sequence), (MutableSet, Set), (MutableMapping, Mapping))
    for name in set(dir(more)) - set(dir(less))
} | {"sort", "update", "difference_update", "intersection_update", "symmetric_difference_update"}
_NOW = {"numpy", "tolist", "backward", "clear_gradient", "__array__"}


# --- what Python keeps


def writes(target: Any) -> Any:
    """The object whose attribute or element is about to be set."""
    if not state.regions or isinstance(target, Variable):
        return target
    region = state.regions[-1]
    if not any(each is target for each in region.born):
        raise error_here(
            f"{text(target)} from outside is changed inside the {region.what}, which depends on a "
            "tensor, and Python would do so just once, whatever the program does: give names new "
            "values, keep what you collect in a tensor, or go through a range of known length"
        )
    return target


def born(made: Any) -> Any:
    """What was made here may be changed here."""
    if state.regions:
        state.regions[-1].born.append(made)
    return made


def grows(target: Any) -> None:
    """`target += ...` is about to come."""
    if isinstance(read(target), _CHANGEABLE):
        writes(target)


def deleted(target: Any) -> Any:
    """A name that had a value has none any more."""
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
    elif state.regions and isinstance(target, _CHANGEABLE) and name in _CHANGES:
        writes(target)
    return getattr(target, name)


def _detached(x: Variable) -> Variable:
    copy = ops.assign(x)
    copy.stop_gradient = True
    return copy


# --- what Python goes through and asks


def spread(items: Any) -> Any:
    """What is unpacked into names or arguments."""
    items = value(items)
    return rows(items) if is_tensor(items) else items


def items(values: Any) -> Any:
    """What a comprehension goes through, while the program is built."""
    found = value(values)
    sequence_of(found)
    return rows(found) if is_tensor(found) else found


def plain(test: Any) -> Any:
    """A test that only Python can ask."""
    test = value(test)
    if is_tensor(test):
        raise error_here(
            f"'{test.name}' is known only when the program runs, but a comprehension or 'case' "
            "chooses while it is built: use layers.where, or a 'for' with an 'if'"
        )
    return test


# --- what ends a run


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
