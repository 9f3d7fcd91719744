"""Control flow: layers whose body is a block of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opstep import ops
from opstep._core import Error
from opstep.program import Block
from opstep.variable import Variable


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
        if condition.dtype != "bool":
            raise Error(
                f"While needs a bool, but '{condition.name}' is {condition.dtype}: "
                "compare it with something"
            )
        self.condition = condition
        self.name = name
        self._used = False

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Layers made inside the `with` are the body."""
        if self._used:
            raise Error("this While has its block already: make another While")
        self._used = True
        program = self.condition.program
        body = program.create_block()
        try:
            yield body
        finally:
            program.rollback()
        read, written = outer_variables(body)
        if self.condition.name not in written:
            raise Error(
                f"the loop would never end: its block does not write '{self.condition.name}'; "
                f"compute it again in the block, with out={self.condition.name}"
            )
        inside = [name for name in {**read, **written} if name != self.condition.name]
        ops.while_(
            condition=self.condition,
            X=[body.var(name) for name in inside],
            block=body,
            out=list(written.values()),
            name=self.name,
        )


def outer_variables(body: Block) -> tuple[dict[str, Variable], dict[str, Variable]]:
    """Variables of the blocks around `body` that its ops read and write, in order of appearance."""
    read: dict[str, Variable] = {}
    written: dict[str, Variable] = {}
    own = body.vars
    for op in body.ops:
        for found, slots in ((read, op.inputs), (written, op.outputs)):
            for name in (name for names in slots.values() for name in names):
                if name and name not in own:
                    found[name] = body.var(name)
    return read, written
