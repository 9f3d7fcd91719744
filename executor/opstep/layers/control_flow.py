"""Control flow: layers that have a block as their body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opstep import context, ops
from opstep._core import Error
from opstep.errors import error
from opstep.program import Block, Program
from opstep.variable import Variable


@contextmanager
def new_block(program: Program) -> Iterator[Block]:
    """Layers made inside the `with` go to a new block."""
    block = program.create_block()
    try:
        yield block
    finally:
        program.rollback()


def check_mode(layer: str) -> None:
    """Blocks are made in programs only."""
    if context.imperative():
        raise error(
            f"{layer} makes a block of a program: in imperative mode use Python's own if, while "
            "and for"
        )


def _check_bool(layer: str, condition: Variable) -> None:
    check_mode(layer)
    if condition.dtype != "bool":
        raise Error(
            f"{layer} needs a bool, but '{condition.name}' is {condition.dtype}: "
            "compare it with something"
        )


class While:
    """Repeats its block for as long as `condition` holds; the block must write it.

    i = layers.fill([1], 0, "int64")
    running = layers.less_than(i, 10)
    loop = layers.While(running)
    with loop.block():
        layers.increment(i)
        layers.less_than(i, 10, out=running)
    """

    def __init__(self, condition: Variable, name: str | None = None) -> None:
        _check_bool("While", condition)
        self.condition = condition
        self.name = name
        self._used = False

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Layers made inside the `with` are the body."""
        if self._used:
            raise Error("this While has its block already: make another While")
        self._used = True
        with new_block(self.condition.program) as body:
            yield body
        written = (name for op in body.ops for names in op.outputs.values() for name in names)
        if self.condition.name not in written or self.condition.name in body.vars:
            raise Error(
                f"the loop would never end: its block does not write '{self.condition.name}'; "
                f"compute it again in the block, with out={self.condition.name}"
            )
        ops.while_(condition=self.condition, block=body, name=self.name)


class Switch:
    """Runs the block of the first case that holds; blocks write variables that exist already.

    with layers.Switch() as switch:
        with switch.case(step < 1000):
            layers.fill([1], 0.1, out=rate)
        with switch.default():
            layers.fill([1], 0.01, out=rate)
    """

    def __init__(self, name: str | None = None) -> None:
        check_mode("Switch")
        self.name = name
        self._conditions: list[Variable] = []
        self._blocks: list[Block] = []
        self._program: Program | None = None

    def __enter__(self) -> Switch:
        return self

    @contextmanager
    def case(self, condition: Variable) -> Iterator[Block]:
        """Layers made inside the `with` run if `condition` holds and none before it did."""
        _check_bool("Switch", condition)
        if len(self._blocks) > len(self._conditions):
            raise Error("a case cannot follow the default of a Switch: put it before")
        self._program = condition.program
        self._conditions.append(condition)
        with new_block(condition.program) as block:
            self._blocks.append(block)
            yield block

    @contextmanager
    def default(self) -> Iterator[Block]:
        """Layers made inside the `with` run if no case holds."""
        if self._program is None or len(self._blocks) > len(self._conditions):
            raise Error("a Switch has one default, after its cases")
        with new_block(self._program) as block:
            self._blocks.append(block)
            yield block

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        if self._program is None:
            raise Error("this Switch has no case: add one with switch.case(condition)")
        ops.switch(conditions=self._conditions, blocks=self._blocks, name=self.name)


def cond(
    condition: Variable,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    name: str | None = None,
) -> Any:
    """The result of `true_fn()` if `condition` holds, else that of `false_fn()`.

    Both return a variable, or tuples or lists of the same length. In imperative mode only one of
    them is called.
    """
    if context.imperative():
        return true_fn() if condition else false_fn()
    choice = Choice(condition, name)
    results = []
    for which, function in ((True, true_fn), (False, false_fn)):
        with choice.block(which):
            results.append(function())
    lists = [list(r) if isinstance(r, tuple | list) else [r] for r in results]
    if len(lists[0]) != len(lists[1]):
        raise Error(f"cond gets {len(lists[0])} results if true and {len(lists[1])} if false")
    for given in lists[0] + lists[1]:
        if not isinstance(given, Variable):
            raise Error(f"cond's functions must give variables, not {type(given).__name__}")
    out = choice.results(lists[0], lists[1])
    return out if isinstance(results[0], tuple | list) else out[0]


class Choice:
    """The two blocks of a cond, made one after the other."""

    def __init__(self, condition: Variable, name: str | None = None) -> None:
        _check_bool("layers.cond", condition)
        self.condition = condition
        self.program = condition.program
        self.name = name
        self.blocks: dict[bool, Block] = {}

    @contextmanager
    def block(self, which: bool) -> Iterator[Block]:
        """Layers made inside the `with` run if the condition is `which`."""
        with new_block(self.program) as block:
            self.blocks[which] = block
            yield block

    def results(self, yes: Sequence[Variable], no: Sequence[Variable]) -> tuple[Variable, ...]:
        """The results of the block that runs; both blocks give the same number of them."""
        name = self.name or self.program.unique_name(ops.cond.type)
        names = names_of(name, "out", len(yes))
        ops.cond(
            self.condition,
            true_results=list(yes),
            false_results=list(no),
            true_block=self.blocks[True],
            false_block=self.blocks[False],
            out=names,
            name=name,
        )
        return tuple(self.program.current_block().var(each) for each in names)


def names_of(name: str, slot: str, count: int) -> list[str]:
    """The names of a layer's results."""
    return [f"{name}.{slot}" if count == 1 else f"{name}.{slot}_{i}" for i in range(count)]


class IfElse:
    """Splits rows by a condition, runs a block on each part, and merges the outputs' rows again.

    branch = layers.IfElse(layers.less_than(x[:, 0], 0.0))
    with branch.true_block():
        branch.output(layers.fc(branch.input(x), size=8))
    with branch.false_block():
        branch.output(layers.fc(branch.input(x), size=8))
    y = branch()
    """

    def __init__(self, condition: Variable, name: str | None = None) -> None:
        _check_bool("IfElse", condition)
        self.condition = condition
        self.program = condition.program
        self.name = name or self.program.unique_name(ops.ifelse.type)
        self._inputs: list[Variable] = []
        self._blocks: dict[bool, Block] = {}
        self._handed: dict[bool, dict[str, Variable]] = {True: {}, False: {}}
        self._results: dict[bool, list[Variable]] = {}
        self._inside: bool | None = None

    @contextmanager
    def _branch(self, which: bool) -> Iterator[Block]:
        if which in self._blocks:
            raise Error(f"this IfElse has its {str(which).lower()} block already")
        with new_block(self.program) as block:
            self._blocks[which] = block
            self._inside = which
            try:
                yield block
            finally:
                self._inside = None

    def true_block(self) -> Any:
        """Layers made inside the `with` run on the rows whose condition holds."""
        return self._branch(True)

    def false_block(self) -> Any:
        """Layers made inside the `with` run on the other rows."""
        return self._branch(False)

    def input(self, x: Variable) -> Variable:
        """The rows of `x` that this block gets."""
        if self._inside is None:
            raise Error("IfElse.input is for the inside of its true or false block")
        if x.name in self._handed[self._inside]:
            return self._handed[self._inside][x.name]
        if all(x.name != known.name for known in self._inputs):
            self._inputs.append(x)
        return self._hand(self._inside, x)

    def _hand(self, which: bool, x: Variable) -> Variable:
        side = "true" if which else "false"
        made = self._blocks[which].create_var(
            f"{self.name}.{x.name}.{side}", [None, *x.shape[1:]], x.dtype
        )
        self._handed[which][x.name] = made
        return made

    def output(self, *results: Variable) -> None:
        """The results of this block, with a row for each of its rows."""
        if self._inside is None:
            raise Error("IfElse.output is for the inside of its true or false block")
        self._results.setdefault(self._inside, []).extend(results)

    def __call__(self) -> Any:
        """The merged outputs."""
        for which, side in ((True, "true"), (False, "false")):
            if not self._results.get(which):
                raise Error(f"this IfElse has no output of its {side} block yet")
            for x in self._inputs:
                if x.name not in self._handed[which]:
                    self._hand(which, x)
        yes, no = self._results[True], self._results[False]
        if len(yes) != len(no):
            raise Error(f"the true block has {len(yes)} outputs and the false block {len(no)}")
        outs = names_of(self.name, "out", len(yes))
        ops.ifelse(
            self.condition,
            inputs=self._inputs,
            true_results=yes,
            false_results=no,
            true_block=self._blocks[True],
            false_block=self._blocks[False],
            true_inputs=[self._handed[True][x.name].name for x in self._inputs],
            false_inputs=[self._handed[False][x.name].name for x in self._inputs],
            out=outs,
            name=self.name,
        )
        made = [self.program.current_block().var(name) for name in outs]
        return made[0] if len(made) == 1 else tuple(made)
