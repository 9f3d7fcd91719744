"""`if` in converted code, and the expressions that choose."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from opstep import ops
from opstep.context import _context
from opstep.convert.jumps import RESULT
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
from opstep.convert.number import BOOL, Number, cast, to_number, wider
from opstep.convert.state import Region, Unset, inside, is_tensor, state
from opstep.convert.user_errors import error_here, line_here
from opstep.imperative.programs import part_of
from opstep.layers.control_flow import Choice
from opstep.program import Block
from opstep.variable import Variable


def truth(value: Variable) -> Variable:
    """Whether a tensor of one element is true, as Python would see it."""
    if any(size not in (1, None) for size in value.shape):
        raise error_here(
            f"'{value.name}' has the shape {list(value.shape)}, so it is not one truth value; "
            "reduce it first, with layers.reduce_any or layers.reduce_all"
        )
    plain = value.tensor() if isinstance(value, Number) else value
    return plain if plain.dtype == BOOL else ops.not_equal(plain, 0)


class _Part:
    """A block that is being made."""

    def __init__(self, manager: AbstractContextManager[Block], what: str, line: int) -> None:
        if state.managers:
            manager_name = type(state.managers[-1]).__name__
            raise error_here(
                f"the {what} depends on a tensor, but is inside a 'with' of {manager_name}, which "
                "is entered while the program is built, not while it runs: move one out of it"
            )
        self._what = f"{what} on line {line}"
        self._counts = dict(_context.counts)
        self._manager = manager
        self.block = manager.__enter__()
        self.region = Region(self._what, self.drop)
        state.regions.append(self.region)

    def counts(self) -> dict[str, int]:
        """The number of calls of layer functions with parameters but without a name."""
        layer, program = _context.layer, _context.building
        if layer is None or program is None:
            return {}
        kept = {key.partition(".")[0].rpartition("_")[0] for key in part_of(layer, program).names}
        before, after = self._counts, _context.counts
        return {kind: n for kind, n in after.items() if kind in kept and n != before.get(kind, 0)}

    def refuse(self, kinds: Iterable[str]) -> None:
        """Line by line, the parameters that are meant would depend on the branch taken."""
        for kind in kinds:
            raise error_here(
                f"layers.{kind} without a name is inside the {self._what}, which depends on a "
                "tensor, so it is not clear which parameters it means: give it a name, or "
                "make it a layer in __init__"
            )

    def forget_counts(self) -> None:
        """The other branch begins with the same counts."""
        _context.counts.clear()
        _context.counts.update(self._counts)

    def close(self) -> None:
        state.regions.pop()
        self._manager.__exit__(None, None, None)

    def drop(self) -> None:
        """Discard the block: it will be made again, or not at all."""
        state.regions.pop()
        self._manager.gen.close()  # type: ignore[attr-defined]


class _Slot:
    """A place in the results for a value that the program chooses."""

    def __init__(self, index: int) -> None:
        self.index = index


class Branch:
    """One `if`: goes through the branch that holds, or through both and merges their values."""

    def __init__(
        self, test: Any, names: tuple[str, ...], line: int, before: tuple[Any, ...]
    ) -> None:
        self._names, self._line, self._before = names, line, before
        test = as_variables(test)
        self.side = False
        self._choice: Choice | None = None
        self._turn = 0
        self._after: list[tuple[Any, ...]] = []
        self._slots: list[tuple[Any, Any, Kind]] = []
        # For each branch: does nothing come after it?
        self._fails: list[bool] = []
        self.result: tuple[Any, ...] | None = None
        if is_tensor(test):
            self._choice = Choice(truth(test))
        else:
            self.side = bool(test)

    def more(self) -> bool:
        """Is there a branch to go through?"""
        if self._choice is None:
            self._turn += 1
            return self._turn == 1
        if self._turn == 2:
            return False
        self.side = self._turn == 0
        self._part = _Part(self._choice.block(self.side), "'if'", self._line)
        return True

    def done(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Takes the values of the names after a branch; returns those to continue with."""
        if self._choice is None:
            return values
        counts = self._part.counts()
        self._part.close()
        self._turn += 1
        self._fails.append(self._part.region.fails)
        self._after.append(tuple(map(as_variables, values)))
        if self._turn == 1:
            self._counts = counts
            self._part.forget_counts()
            return self._before
        self._part.refuse(kind for kind, _ in counts.items() ^ self._counts.items())
        return self._merged()

    def _merged(self) -> tuple[Any, ...]:
        assert self._choice is not None
        if all(self._fails) and state.regions:
            state.regions[-1].fails = True
        merged = [self._pair(*each) for each in zip(self._names, *self._after, strict=True)]
        sides: list[list[Variable]] = []
        for which in (True, False):
            with inside(self._choice.blocks[which]):
                values = ((a if which else b, kind) for a, b, kind in self._slots)
                sides.append([_result(value, kind) for value, kind in values])
        outs = self._choice.results(*sides)

        def fill(leaf: Any) -> Any:
            if not isinstance(leaf, _Slot):
                return leaf
            return given(outs[leaf.index], self._slots[leaf.index][2])

        return tuple(mapped(fill, each) for each in merged)

    def _pair(self, name: str, a: Any, b: Any) -> Any:
        if alike(a, b):
            return a
        if self._fails == [True, False]:
            return self._only(Unset(name), b, True)
        if self._fails == [False, True]:
            return self._only(Unset(name), a, False)
        if isinstance(a, Unset) or isinstance(b, Unset):
            return self._half(name, a, b)
        if same_structure(a, b):
            pairs = zip(parts_of(a), parts_of(b), strict=True)
            return rebuilt(a, [self._pair(name, *each) for each in pairs])
        kinds = kind_of(a), kind_of(b)
        if kinds[0] is not None and kinds[1] is not None:
            kind = unified(kinds[0], kinds[1])
            if kind is not None:
                return self._slot(a, b, kind)
        if name == RESULT:
            why = (
                f"the function returns {text(a)} on one way through the 'if' on line {self._line} "
                f"and {text(b)} on the other, but a program needs one type: return the same type"
            )
        else:
            why = (
                f"'{name}' is {text(a)} in one branch of the 'if' on line {self._line} and "
                f"{text(b)} in the other, but a program needs one type: make them alike"
            )
        if type(a) is type(b) and kinds == (None, None):
            why = why.partition(", but ")[0] + (
                ", but a program chooses between tensors or numbers only: use one of these in its "
                "place"
            )
        return Unset(name, why)

    def _half(self, name: str, a: Any, b: Any) -> Any:
        unset, other = (a, b) if isinstance(a, Unset) else (b, a)
        if isinstance(other, Unset):
            return other if other.why else unset
        if name == RESULT and not unset.why:
            # Nobody reads it before it is set.
            return self._only(unset, other, unset is a)
        if name == RESULT:
            return unset
        return Unset(
            name,
            f"'{name}' gets a value in only one branch of the 'if' on line {self._line}, which "
            "depends on a tensor: give it one in the other branch or before",
        )

    def _only(self, unset: Unset, other: Any, first: bool) -> Any:
        """The value of one branch; nobody reads that of the other, the first or the second."""

        def leaf(value: Any) -> Any:
            kind = kind_of(value)
            if kind is None or not isinstance(value, Variable):
                return value
            return self._slot(*((unset, value) if first else (value, unset)), kind)

        return mapped(leaf, other)

    def _slot(self, a: Any, b: Any, kind: Kind) -> _Slot:
        self._slots.append((a, b, kind))
        return _Slot(len(self._slots) - 1)


def _result(value: Any, kind: Kind) -> Variable:
    return placeholder(kind) if isinstance(value, Unset) else made(value, kind)


# --- `and`, `or`, chained comparisons, conditional expressions


class _Waiting:
    """The left side of `and` or `or`, a tensor, with the block for the right side open."""

    def __init__(self, left: Variable, which: bool, names: dict[str, Any]) -> None:
        self.left, self.which, self.names = left, which, names
        self.choice = Choice(truth(left))
        self.word, self.line = "'and'" if which else "'or'", line_here()
        self.part = _Part(self.choice.block(which), self.word, self.line)

    def finish(self, right: Any, test: bool, names: dict[str, Any]) -> tuple[Any, list[Any]]:
        """The value of the expression, and the names that its right side gives values to."""
        kinds = kind_of(self.left), kind_of(right)
        kind = unified(kinds[0], kinds[1]) if kinds[0] and kinds[1] else None
        if kind is None and not test:
            raise error_here(
                f"{self.word} gives one of its sides, here {text(self.left)} or {text(right)}, but "
                "a program needs one type: make them alike, or choose with an 'if'"
            )
        if kind is None:
            # Of different types; in a test that makes no difference.
            kind = TRUTH
            right = truth(right) if is_tensor(right) else bool(right)
            left: Any = not self.which
        else:
            left = self.left
        slots = [(right, left, kind)]
        kept = [self._name(name, value, slots) for name, value in names.items()]
        inner = [made(value, each) for value, _, each in slots]
        self.part.close()
        with self.choice.block(not self.which):
            outer = [made(value, each) for _, value, each in slots]
        outs = self.choice.results(*((inner, outer) if self.which else (outer, inner)))
        results = [given(out, each) for out, (_, _, each) in zip(outs, slots, strict=True)]
        return results[0], [results[v.index] if isinstance(v, _Slot) else v for v in kept]

    def _name(self, name: str, after: Any, slots: list[tuple[Any, Any, Kind]]) -> Any:
        before, after = as_variables(self.names[name]), as_variables(after)
        if alike(before, after):
            return after
        kinds = kind_of(after), kind_of(before)
        kind = unified(kinds[0], kinds[1]) if kinds[0] and kinds[1] else None
        if kind is None:
            return Unset(
                name,
                f"'{name}' gets a value on the right of the {self.word} on line {self.line}, which "
                "a program may not reach: give it one of that type on a line before",
            )
        slots.append((after, before, kind))
        return _Slot(len(slots) - 1)


def _begin(left: Any, which: bool, names: dict[str, Any]) -> bool:
    left = as_variables(left)
    state.held.append(_Waiting(left, which, names) if is_tensor(left) else left)
    return True if is_tensor(left) else bool(left) is which


def begin_and(left: Any, names: dict[str, Any]) -> bool:
    return _begin(left, True, names)


def begin_or(left: Any, names: dict[str, Any]) -> bool:
    return _begin(left, False, names)


def end_and(right: Any, test: bool, names: dict[str, Any]) -> Any:
    left = state.held.pop()
    right, kept = as_variables(right), list(names.values())
    if isinstance(left, _Waiting):
        right, kept = left.finish(right, test, names)
    state.held += reversed(kept)
    return right


end_or = end_and


def held() -> Any:
    """The result of an expression whose left side decides it."""
    return state.held.pop()


def begin_chain(left: Any, sign: str, right: Any, names: dict[str, Any]) -> bool:
    going = begin_and(compare(left, sign, right), names)
    state.held.append(right)
    return going


left = held


def end_chain() -> Any:
    state.held.pop()
    return state.held.pop()


def compare(left: Any, sign: str, right: Any) -> Any:
    left, right = as_variables(left), as_variables(right)
    if sign in _SAME and (is_tensor(left) or is_tensor(right)):
        return _equal(left, sign, right)
    if sign in _WITHIN and (is_tensor(left) or is_tensor(right)):
        raise error_here(
            f"'{sign}' needs values that are there now: compare the tensor with ops such as "
            "layers.equal and layers.reduce_any"
        )
    return _SIGNS[sign](left, right)


def _equal(left: Any, sign: str, right: Any) -> Any:
    numbers = [isinstance(each, Number) or not is_tensor(each) for each in (left, right)]
    kinds = [kind_of(each) for each in (left, right)]
    if not all(numbers):
        word = ops.equal if sign == "==" else ops.not_equal
        raise error_here(
            f"'{sign}' asks whether two tensors are the same object, also in a program: "
            f"compare their elements with layers.{word.type}(a, b)"
        )
    if kinds[0] is None or kinds[1] is None:
        return sign == "!="
    dtype = wider(kinds[0].dtype, kinds[1].dtype)
    same = ops.equal if sign == "==" else ops.not_equal
    return Number.of(same(cast(left, dtype), cast(right, dtype)))


_SAME, _WITHIN = ("==", "!="), ("in", "not in")
_SIGNS: dict[str, Any] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
    "is": lambda a, b: a is b,
    "is not": lambda a, b: a is not b,
}


def choose(test: Any, names: dict[str, Any]) -> bool:
    every = ("the expression", *names)
    branch = Branch(test, every, line_here(), (None, *names.values()))
    state.held.append(branch)
    return branch.more() and branch.side


def yes(value: Any, names: dict[str, Any]) -> None:
    state.held[-1].result = state.held[-1].done((value, *names.values()))


def named(number: int, now: Any) -> Any:
    """The value of a name that a side of a conditional expression set."""
    result = state.held[-1].result
    return now if result is None else result[number + 1]


def otherwise() -> bool:
    branch = state.held[-1]
    return branch.more() if branch._choice is not None else not branch.side


no = yes


def chosen() -> Any:
    return read(state.held.pop().result[0])


def read(value: Any) -> Any:
    """The value of a name, if it has one."""
    if type(value) is not Unset:
        return value
    if value.why:
        raise error_here(value.why)
    raise UnboundLocalError(
        f"cannot access local variable '{value.name}' where it is not associated with a value"
    )


def not_(value: Any) -> Any:
    value = as_variables(value)
    return ~to_number(value, BOOL) if is_tensor(value) else not value


def free(*flags: Any) -> Any:
    """Is none of the flags set?"""
    if any(flag is True for flag in flags):
        return False
    unknown = [truth(flag) for flag in flags if is_tensor(flag)]
    if not unknown:
        return True
    total = unknown[0]
    for each in unknown[1:]:
        total = ops.logical_or(total, each)
    return Number.of(ops.logical_not(total))
