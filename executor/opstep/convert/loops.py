"""`while` and `for` in converted code."""

from __future__ import annotations

from typing import Any

from opstep import ops
from opstep.convert.branches import _Part, truth
from opstep.convert.jumps import ENDED, FLAG, RESULT, RUNTIME
from opstep.convert.merged_values import (
    TRUTH,
    Kind,
    alike,
    as_variables,
    given,
    kind_of,
    made,
    mapped,
    parts_of,
    placeholder,
    rebuilt,
    same_structure,
    text,
    unified,
)
from opstep.convert.number import BOOL, to_number
from opstep.convert.sequences import Sequence, Steps, sequence_of
from opstep.convert.state import Snapshot, Unset, inside, is_tensor
from opstep.convert.user_errors import error_here
from opstep.layers.control_flow import While
from opstep.variable import Variable

_INDEX = f"{RUNTIME}_index"


class _Again(Exception):
    """A name needs another kind from the start."""


class Loop:
    """One `while`. As long as its test is Python's own, Python loops; from the first test that is a
    tensor on, the body is built once and the program loops."""

    def __init__(self) -> None:
        # A tensor: the test before the first turn of the program's loop.
        self._start: Variable | None = None
        self._part: _Part | None = None
        self._final: tuple[Any, ...] | None = None
        # Kinds that numbers must have from the start, found by building the body.
        self._promoted: dict[tuple[str, int], Kind] = {}
        self._before: tuple[Any, ...] = ()
        self._values: tuple[Any, ...] = ()

    def go(self, test: Any, named: dict[str, Any] | None = None) -> bool:
        """Is there another turn to go through? `named` are the values that the test gave names."""
        if self._part is not None:
            if named:
                pairs = zip(self._names, self._values, strict=True)
                self._values = tuple(named.get(name, value) for name, value in pairs)
            return self._close(test)
        test = as_variables(test)
        if not is_tensor(test):
            return bool(test)
        self._start = truth(test)
        return True

    def enter(
        self, values: tuple[Any, ...], names: tuple[str, ...], fresh: tuple[str, ...], line: int
    ) -> tuple[Any, ...]:
        """The values of the names at the start of a turn."""
        if self._start is None:
            return values
        if not self._before:
            self._names, self._fresh, self._line = names, fresh, line
            self._before = tuple(map(as_variables, (*values, *self._more_before())))
            self._every = (*names, *self._more_names())
            self._program = self._start.program
            self._snapshot = Snapshot(self._program)
        return self._open()[: len(names)]

    def leave(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values after a turn."""
        self._values = values
        return values

    def end(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values after the loop."""
        return values if self._final is None else self._final

    # --- values that a `for` carries besides the names

    def _more_names(self) -> tuple[str, ...]:
        return ()

    def _more_before(self) -> tuple[Any, ...]:
        return ()

    def _more_after(self) -> tuple[Any, ...]:
        return ()

    # --- the program's loop

    def _open(self) -> tuple[Any, ...]:
        assert self._start is not None
        self._base = self._program.unique_name(ops.while_.type)
        self._going = ops.assign(self._start, out=f"{self._base}.going", name=f"{self._base}.test")
        self._labels = {"going", "test"}
        self._carried = [
            self._handed(name, value) for name, value in zip(self._every, self._before, strict=True)
        ]
        self._around = self._program.current_block()
        self._manager = While(self._going, name=self._base).block()
        self._part = _Part(self._manager, self._word, self._line)
        return tuple(self._carried)

    _word = "'while'"

    def _late(self, name: str, before: Any) -> bool:
        """Does the turn never read the value from before it?"""
        return name.startswith(FLAG) or name in self._fresh or isinstance(before, Unset)

    def _handed(self, name: str, before: Any) -> Any:
        if name.startswith(FLAG):
            return False  # else there would be no further turn
        if self._late(name, before):
            return before if isinstance(before, Unset) else Unset(name)
        leaves = iter(range(1 << 30))

        def carry(value: Any) -> Any:
            number = next(leaves)
            kind = kind_of(value)
            if kind is None:
                return value
            kind = self._promoted.get((name, number), kind)
            return given(self._copy(value, kind, self._label(name)), kind)

        return mapped(carry, before)

    def _label(self, name: str) -> str:
        """The name of a carried variable."""
        plain = name.removeprefix(FLAG).removeprefix(f"{RUNTIME}_")
        label, number = plain, 0
        while label in self._labels:
            number += 1
            label = f"{plain}_{number}"
        self._labels.add(label)
        return f"{self._base}.{label}"

    def _copy(self, value: Any, kind: Kind, label: str) -> Variable:
        if isinstance(value, Variable):
            return ops.assign(made(value, kind), out=label, name=label)
        shape = list(kind.shape)
        return ops.fill(shape=shape, dtype=kind.dtype, value=value, out=label, name=label)

    def _close(self, test: Any) -> bool:
        assert self._part is not None
        after = tuple(map(as_variables, (*self._values, *self._more_after())))
        try:
            final, updates = self._updates(after)
        except _Again:
            self._part.forget_counts()
            self._part.drop()
            self._part = None
            self._snapshot.restore()
            return True
        self._part.refuse(self._part.counts())
        test = as_variables(test)
        going = truth(test) if is_tensor(test) else made(bool(test), TRUTH)
        # A value that another name had before the turn must be kept until all are written.
        carried = {name for name, _ in updates}
        updates = [(n, ops.assign(v) if v.name in carried else v) for n, v in updates]
        if going.name in carried:
            going = ops.assign(going)
        for name, value in updates:
            ops.assign(value, out=name)
        ops.assign(going, out=self._going)
        self._part.close()
        self._part = None
        self._final = tuple(final[: len(self._names)])
        self._start = None
        return False

    def _updates(self, after: tuple[Any, ...]) -> tuple[list[Any], list[tuple[str, Variable]]]:
        """The values of the names after the loop, and the writes that the body needs for them."""
        updates: list[tuple[str, Variable]] = []
        final = []
        again = False
        columns = zip(self._every, self._before, self._carried, after, strict=True)
        for name, before, carried, value in columns:
            if self._late(name, before):
                final.append(self._last(name, before, value, updates))
                continue
            leaves = iter(range(1 << 30))
            again |= self._compare(name, before, carried, value, leaves, updates)
            final.append(carried)
        if again:
            raise _Again
        return final, updates

    def _compare(
        self,
        name: str,
        before: Any,
        carried: Any,
        after: Any,
        leaves: Any,
        updates: list[tuple[str, Variable]],
    ) -> bool:
        """Records the needs of one name; returns whether the body must be built again."""
        if same_structure(carried, after):
            columns = zip(parts_of(before), parts_of(carried), parts_of(after), strict=True)
            # All of them, also after one that needs it.
            return sum(self._compare(name, *each, leaves, updates) for each in columns) > 0
        kind, new = kind_of(carried), kind_of(after)
        if isinstance(carried, tuple | list | dict) or kind is None or new is None:
            if not alike(carried, after):
                raise self._changed(name, before, after)
            return False
        number = next(leaves)
        if isinstance(after, Variable) and after.name == carried.name:
            return False
        common = unified(kind, new)
        if common is None:
            raise self._changed(name, before, after)
        if common != kind and (kind.number or None in kind.shape):
            if self._promoted.get((name, number)) == common:
                raise self._changed(name, before, after)
            if kind.number:
                self._promoted[name, number] = common
                return True
        updates.append((carried.name, made(after, common)))
        return False

    def _changed(self, name: str, before: Any, after: Any) -> Exception:
        if isinstance(after, Unset) and after.why:
            return error_here(after.why)
        now = "without a value" if isinstance(after, Unset) else text(after)
        return error_here(
            f"'{name}' is {text(before)} before the loop on line {self._line} and {now} after a "
            "turn of it, but what changes in a program's loop must be a tensor of one dtype and "
            "shape: give it that type before the loop"
        )

    def _last(self, name: str, before: Any, after: Any, updates: list[tuple[str, Variable]]) -> Any:
        """The value after the loop of a name that the body does not read."""
        if isinstance(after, Unset):
            return after
        if name.startswith(FLAG + ENDED) or (name.startswith(FLAG) and after is False):
            return False
        if alike(before, after) and not isinstance(after, Variable):
            return after
        nothing = isinstance(before, Unset)
        if nothing and (name != RESULT or before.why):
            return before if before.why else self._only_inside(name)
        if not nothing and isinstance(before, tuple | list | dict):
            if not same_structure(before, after):
                return self._either(name, before, after)
            parts = zip(parts_of(before), parts_of(after), strict=True)
            return rebuilt(after, [self._last(name, *each, updates) for each in parts])
        if nothing and isinstance(after, tuple | list | dict):
            return rebuilt(after, [self._last(name, before, v, updates) for v in parts_of(after)])
        new = kind_of(after)
        if nothing:
            kind = new
        else:
            old = kind_of(before)
            kind = unified(old, new) if old is not None and new is not None else None
        if kind is None:
            return after if nothing else self._either(name, before, after)
        label = self._label(name)
        with inside(self._around):
            # Goes before the loop, though only its body showed the need.
            start = placeholder(kind) if nothing else made(before, kind)
            ops.assign(start, out=label, name=label)
        updates.append((label, made(after, kind)))
        return given(self._around.var(label), kind)

    def _only_inside(self, name: str) -> Unset:
        return Unset(
            name,
            f"'{name}' gets its value only inside the loop on line {self._line}, which may end "
            "before its first turn: give it one before the loop",
        )

    def _either(self, name: str, before: Any, after: Any) -> Unset:
        return Unset(
            name,
            f"'{name}' is {text(before)} before the loop on line {self._line} and {text(after)} "
            "after a turn of it, but a program needs one type: make them alike",
        )


class Each(Loop):
    """One `for`. The program loops over a tensor or a range of tensors, and over a Python range
    once leaving the loop depends on a tensor."""

    _word = "'for'"

    def __init__(self, items: Any) -> None:
        super().__init__()
        items = as_variables(items)
        self._sequence: Sequence | None = sequence_of(items)
        self._range = items if isinstance(items, range) else None
        self._iterator = None if self._sequence is not None else iter(items)
        self._turn = 0
        self._item: Any = None

    def go(self, test: Any, named: dict[str, Any] | None = None) -> bool:
        if self._part is not None:
            self._next = self._index + 1
            return self._close(_both(test, self._next < self._length))
        if self._sequence is None and self._range is not None and is_tensor(test):
            left = self._range[self._turn :]
            self._sequence = Steps(left.start, left.step, len(left))
        if self._sequence is not None:
            self._length = self._sequence.length()
            if not is_tensor(self._length) and self._length < 1:
                return False
            more = self._length > 0
            start = _both(test, more)
            if start is False:
                return False
            self._start = truth(start) if is_tensor(start) else made(True, TRUTH)
            return True
        assert self._iterator is not None
        # Where leaving depends on a tensor, the body tests that.
        if test is False:
            return False
        try:
            self._item = next(self._iterator)
        except StopIteration:
            return False
        self._turn += 1
        return True

    def item(self) -> Any:
        if self._sequence is None:
            return self._item
        self._index = self._carried[-1]
        return self._sequence.at(self._index)

    def _more_names(self) -> tuple[str, ...]:
        return (_INDEX,)

    def _more_before(self) -> tuple[Any, ...]:
        return (0,)

    def _more_after(self) -> tuple[Any, ...]:
        return (self._next,)


def _both(test: Any, more: Any) -> Any:
    if test is False or more is False:
        return False
    if not is_tensor(test):
        return more
    return to_number(test, BOOL) & more if is_tensor(more) else test
