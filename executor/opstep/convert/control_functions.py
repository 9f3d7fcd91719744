"""Control flow by functions, with one meaning in both modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opstep.context import _context
from opstep.convert.branches import Branch, read
from opstep.convert.calls import call
from opstep.convert.loops import Loop
from opstep.convert.running_loops import counted
from opstep.convert.state import unwinding
from opstep.convert.user_errors import error_here, line_here


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """The result of `true_fn()` if `pred` holds, else that of `false_fn()`.

    In a program both are built and must return values of the same types: a tensor, or several in
    tuples, lists or dicts. With runtime values or Python's own only one of them is called.
    """
    with unwinding():
        branch = Branch(pred, ("the result of cond",), line_here(), (None,))
        result: Any = None
        while branch.more():
            result = branch.done((_apply(true_fn if branch.side else false_fn),))
    return read(result[0])


def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Sequence[Any]
) -> tuple[Any, ...]:
    """`loop_vars = body(*loop_vars)` for as long as `cond(*loop_vars)` holds; returns the last.

    In a program they keep their dtypes and shapes.
    """
    values = tuple(loop_vars)
    names = tuple(f"loop_vars[{n}]" for n in range(len(values)))
    loop = Loop()
    with unwinding(), counted():
        while loop.go(_apply(cond, *values)):
            values = loop.enter(values, names, (), line_here())
            given = _apply(body, *values)
            given = tuple(given) if isinstance(given, list | tuple) else (given,)
            if len(given) != len(values):
                raise error_here(
                    f"while_loop has {len(values)} loop_vars but its body gives {len(given)}: it "
                    "must return each of them"
                )
            values = loop.leave(given)
    return loop.end(values)


def _apply(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function; in converted code it is converted too."""
    return function(*args) if _context.trace is None else call(function, *args)
