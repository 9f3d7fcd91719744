"""Calls in converted code: the user's functions are converted too, others called as they are."""

from __future__ import annotations

import bisect
import builtins
import functools
import heapq
from collections.abc import (
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence as Sized,
    Set,
)
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from opstep import ops
from opstep.convert.function import converted, convertible
from opstep.convert.managers import manager
from opstep.convert.merged_values import as_variables, text
from opstep.convert.number import BOOL, FLOAT, INT, Number, to_number
from opstep.convert.sequences import Rows, Sequence, enumerate_, range_, rows, zip_
from opstep.convert.state import is_tensor, state
from opstep.convert.user_errors import error_here
from opstep.imperative.mode import guard, no_grad
from opstep.operators import Operators
from opstep.variable import Variable


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    special = _special(function)
    if special is not None:
        args = tuple(map(as_variables, args))
        if any(isinstance(each, Variable | Sequence) for each in _flat(args)):
            return _born(special(*args, **kwargs), function)
    elif _of_numpy(function) and any(map(is_tensor, (*args, *kwargs.values()))):
        name = getattr(function, "__name__", "this function")
        raise error_here(
            f"NumPy's {name} works on arrays, but is given a tensor of the program: use the "
            "function of opstep.layers"
        )
    if isinstance(getattr(function, "__self__", None), str):
        for each in (*args, *kwargs.values()):
            if is_tensor(each):
                raise unwritable(each)
    if state.regions:
        _check_changes(function, args, kwargs)
    return _born(callable_for(function)(*args, **kwargs), function)


def _born(result: Any, function: Any) -> Any:
    """Objects made here may be changed here."""
    if state.regions and (isinstance(function, type) or function is iter):
        state.regions[-1].born.append(result)
    return result


# --- changes of Python's objects

_CHANGEABLE = (MutableSequence, MutableSet, MutableMapping, np.ndarray)
# Methods that only mutable objects have.
_CHANGES = {
    name
    for more, less in ((MutableSequence, Sized), (MutableSet, Set), (MutableMapping, Mapping))
    for name in set(dir(more)) - set(dir(less))
} | {
    *("sort", "update", "difference_update", "intersection_update"),
    *("symmetric_difference_update", "appendleft", "extendleft", "popleft", "rotate"),
    *("subtract", "move_to_end", "put", "partition", "resize", np.ndarray.fill.__name__),
}
# Functions that change what they are given first.
_CHANGING = {
    *(setattr, delattr, next, heapq.heappush, heapq.heappop, heapq.heapify, heapq.heapreplace),
    *(heapq.heappushpop, bisect.insort_left, bisect.insort_right, np.copyto, np.put, np.place),
}


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


def changes(target: Any, name: str) -> bool:
    """Does that method change its object?"""
    if isinstance(target, Iterator) and name in ("__next__", "send"):
        return True
    return isinstance(target, _CHANGEABLE) and name in _CHANGES


def _check_changes(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    owner = getattr(function, "__objclass__", None)
    of_a_class = isinstance(owner, type) and args and changes(args[0], function.__name__)
    try:
        changing = bool(args) and function in _CHANGING
    except TypeError:  # not hashable
        changing = False
    if of_a_class or changing:
        writes(args[0])
    bound = getattr(function, "__self__", None)
    if bound is not None and changes(bound, getattr(function, "__name__", "")):
        writes(bound)
    if isinstance(kwargs.get("out"), np.ndarray):
        writes(kwargs["out"])


def callable_for(function: Any) -> Any:
    """The function, converted if it is the user's."""
    if isinstance(function, FunctionType):
        if convertible(function):
            return converted(function)
        return _without_guard(function)
    if isinstance(function, MethodType):
        inner = callable_for(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if isinstance(function, functools.partial):
        inner = callable_for(function.func)
        return functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, type | Operators):
        return function
    method = type(function).__call__ if callable(function) else None
    if isinstance(method, FunctionType) and convertible(method):
        return MethodType(converted(method), function)
    return function


def _without_guard(function: FunctionType) -> Any:
    """A function that a manager of opstep decorates, inside that manager's program version."""
    inner = getattr(function, "__wrapped__", None)
    names = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    given = names["self"].cell_contents if inner is not None and "self" in names else None
    if not isinstance(given, guard | no_grad):
        return function
    inside = callable_for(inner)

    def run(*args: Any, **kwargs: Any) -> Any:
        with manager(given):
            return inside(*args, **kwargs)

    return run


def _of_numpy(function: Any) -> bool:
    module = getattr(function, "__module__", None)
    return (isinstance(module, str) and module.split(".")[0] == "numpy") or (
        type(function).__module__ == "numpy"
    )


def _flat(args: tuple[Any, ...]) -> list[Any]:
    """The arguments and the items of lists among them, as in max([a, b])."""
    return [item for each in args for item in (each if isinstance(each, list | tuple) else [each])]


# --- Python's own functions, given tensors


def _special(function: Any) -> Any:
    try:
        return _SPECIAL.get(function)
    except TypeError:  # not hashable
        return None


def _length(x: Any) -> Any:
    if isinstance(x, Sequence):
        return x.length()
    if not isinstance(x, Variable):
        return len(x)
    if not x.shape:
        raise error_here(f"'{x.name}' has no dimensions, so it has no len()")
    return Rows(x).length()


def _written(*args: Any, **_: Any) -> None:
    """`print`: by the program, with the words before each tensor."""
    words: list[str] = []
    for each in args:
        if is_tensor(each):
            plain = each.tensor() if isinstance(each, Number) else each
            ops.print(plain, message=" ".join(words).rstrip(":") or None)
            words = []
        else:
            words.append(str(each))
    if words:
        print(*words)


def unwritable(x: Variable | None) -> Exception:
    what = "a range of tensors" if x is None else f"'{x.name}'"
    return error_here(
        f"{what} is known only when the program runs, so it cannot become text now: "
        "print it, as in print('x', x), or return it and make the text outside"
    )


def _in_words(*args: Any, **_: Any) -> Any:
    raise unwritable(next((each for each in _flat(args) if is_tensor(each)), None))


def _through(plain: Any) -> Any:
    """A function that loops over its first argument while the program is built."""

    def go(items: Any, *more: Any, **options: Any) -> Any:
        return plain(_items(items), *more, **options)

    return go


def _items(x: Any) -> Any:
    if isinstance(x, Sequence):
        return list(x)
    return rows(x) if is_tensor(x) else x


def _mapped(function: Any, *items: Any) -> Any:
    return map(lambda *each: call(function, *each), *map(_items, items))


def _extreme(larger: bool) -> Any:
    def choose(*args: Any, **options: Any) -> Any:
        given = list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else args
        if options or len(given) < 2:
            raise error_here(
                "of a tensor take x.max() or x.min(); Python's max and min choose between numbers"
            )
        best = given[0]
        for each in given[1:]:
            best = _one_of(each > best if larger else each < best, each, best)
        return best

    return choose


def _one_of(test: Any, yes: Any, no: Any) -> Any:
    from opstep.convert.branches import Branch, read

    branch = Branch(test, ("the result",), 0, (None,))
    while branch.more():
        value = branch.done((yes if branch.side else no,))
    return read(value[0])


def _conversion(dtype: str, plain: Any) -> Any:
    def convert(x: Any = 0, *more: Any) -> Any:
        return to_number(x, dtype) if is_tensor(x) and not more else plain(x, *more)

    return convert


def _is_instance(x: Any, kinds: Any) -> bool:
    if isinstance(x, Number):
        x = {BOOL: False, INT: 0, FLOAT: 0.0}[x.dtype]
    elif isinstance(x, Variable):
        # Line by line it would be a value.
        from opstep.imperative.value import Value

        every = kinds if isinstance(kinds, tuple) else (kinds,)
        if Value in every:
            return True
    return isinstance(x, kinds)


def _of_each(word: str) -> Any:
    def refuse(*_: Any) -> Any:
        raise error_here(
            f"Python's {word}() asks tensors one by one while the program is built: use "
            f"layers.reduce_{word}"
        )

    return refuse


_SPECIAL: dict[Any, Any] = {
    builtins.float: _conversion(FLOAT, float),
    builtins.int: _conversion(INT, int),
    builtins.bool: _conversion(BOOL, bool),
    builtins.len: _length,
    builtins.range: range_,
    builtins.enumerate: enumerate_,
    builtins.zip: zip_,
    builtins.print: _written,
    builtins.max: _extreme(True),
    builtins.min: _extreme(False),
    builtins.isinstance: _is_instance,
    **{each: _through(each) for each in (list, tuple, iter, reversed, sum)},
    builtins.map: _mapped,
    **dict.fromkeys((str, repr, format), _in_words),
    builtins.any: _of_each("any"),
    builtins.all: _of_each("all"),
}
