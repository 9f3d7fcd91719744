"""Sequences that a `for` of converted code can loop over in a program."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from opstep import ops
from opstep.convert.number import INT, Number, to_number
from opstep.convert.state import is_tensor
from opstep.convert.user_errors import error_here
from opstep.variable import Variable


class Sequence:
    """Items by their numbers."""

    def length(self) -> Any:
        """A Python number if it is known now."""
        raise NotImplementedError

    def at(self, index: Any) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        """For loops that Python runs while the program is built."""
        length = self.length()
        if is_tensor(length):
            raise error_here(
                "the number of items is known only when the program runs, so Python cannot make a "
                "list of them: use a 'for' statement, or a range of known length"
            )
        return map(self.at, builtins.range(length))


class Rows(Sequence):
    def __init__(self, x: Variable) -> None:
        if not x.shape:
            raise error_here(f"'{x.name}' has no dimension to go through: it is one number")
        self._x = x

    def length(self) -> Any:
        known = self._x.shape[0]
        return (
            Number.of(ops.gather(ops.shape(self._x), _zero(), axis=0)) if known is None else known
        )

    def at(self, index: Any) -> Any:
        if not is_tensor(index):
            return self._x[index]
        return ops.gather(self._x, index.tensor(), axis=0)


def _zero() -> Variable:
    return ops.fill(shape=[], dtype=INT, value=0)


class Steps(Sequence):
    """A range."""

    def __init__(self, start: Any, step: int, length: Any) -> None:
        self._start, self._step, self._length = start, step, length

    def length(self) -> Any:
        return self._length

    def at(self, index: Any) -> Any:
        steps = index if self._step == 1 else index * self._step
        return steps if not is_tensor(self._start) and self._start == 0 else steps + self._start


class Numbered(Sequence):
    def __init__(self, inner: Sequence, start: Any) -> None:
        self._inner, self._start = inner, start

    def length(self) -> Any:
        return self._inner.length()

    def at(self, index: Any) -> tuple[Any, Any]:
        return (index + self._start if self._start else index), self._inner.at(index)


class Zipped(Sequence):
    def __init__(self, inner: list[Sequence], strict: bool) -> None:
        self._inner, self._strict = inner, strict

    def length(self) -> Any:
        lengths = [each.length() for each in self._inner]
        if any(map(is_tensor, lengths)):
            raise error_here("zip takes tensors of known sizes only: use one range for all of them")
        if self._strict and len(set(lengths)) > 1:
            raise error_here(f"zip with strict=True needs equal lengths, not {lengths}")
        return min(lengths)

    def at(self, index: Any) -> tuple[Any, ...]:
        return tuple(each.at(index) for each in self._inner)


def sequence_of(items: Any) -> Sequence | None:
    """The sequence for a loop over `items`; None if Python loops over them itself."""
    if isinstance(items, Sequence):
        return items
    return Rows(items) if is_tensor(items) else None


def range_(*args: Any) -> Any:
    """`range` with tensors among its arguments."""
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if is_tensor(step) or step == 0:
        raise error_here("the step of a range must be a number that is known now, and not 0")
    start, stop = _whole(start), _whole(stop)
    if step > 0:
        span = stop - start if is_tensor(start) or start else stop
        length = span if step == 1 else (span + (step - 1)) // step
    else:
        length = (start - stop + (-step - 1)) // -step
    return Steps(start, step, length)


def _whole(x: Any) -> Any:
    if not is_tensor(x):
        return x
    if not x.dtype.startswith(("int", "uint")):
        raise error_here(f"a range needs whole numbers, but '{x.name}' is {x.dtype}: cast it first")
    return to_number(x, INT)


def enumerate_(items: Any, start: Any = 0) -> Any:
    sequence = sequence_of(items)
    return builtins.enumerate(items, start) if sequence is None else Numbered(sequence, start)


def zip_(*items: Any, strict: bool = False) -> Any:
    sequences = [sequence_of(each) for each in items]
    if all(each is None for each in sequences):
        return builtins.zip(*items, strict=strict)
    known = [each for each in sequences if each is not None]
    if len(known) < len(sequences):
        raise error_here(
            "zip of tensors and other things: make all of them tensors, with layers.stack, or go "
            "through range(n) and take their elements"
        )
    return Zipped(known, strict)


def rows(x: Variable) -> list[Variable]:
    """All rows of a tensor, for loops that Python runs while the program is built."""
    if not x.shape:
        raise error_here(f"'{x.name}' has no dimension to go through: it is one number")
    if x.shape[0] is None:
        raise error_here(
            f"the number of rows of '{x.name}' is not known while the program is built: loop over "
            "them with a 'for' statement"
        )
    return [x[number] for number in builtins.range(x.shape[0])]
