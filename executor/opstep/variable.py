"""`Variable` and `Parameter`: what ops read and write, with Python's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from opstep import _core
from opstep._core import Error
from opstep.errors import error
from opstep.operators import Operand as Operand, Operators

if TYPE_CHECKING:
    from opstep.program import Block, Operator, Program

# Factor of the learning rate; weight decay instead of the optimizer's; is the gradient clipped?
OPTIMIZE_ATTRS = ("learning_rate", "weight_decay", "grad_clip")


class SequenceLevel(NamedTuple):
    """The companions of a ragged variable for one of its levels: int64[sequences + 1] and
    int64[steps of the longest sequence]."""

    offsets: Variable
    steps: Variable


class Variable(Operators):
    """A tensor that will be there when the program runs."""

    # A debugger reads these attributes directly.
    __slots__ = ("__weakref__", "_program_id", "block", "name")

    def __init__(self, block: Block, name: str) -> None:
        self.block = block
        self.name = name
        self._program_id = block._program_id

    @property
    def program(self) -> Program:
        return self.block.program

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its sizes; None where a size is known only at run time."""
        return tuple(self.block.program._core.shape(self.block.index, self.name))

    @property
    def dtype(self) -> str:
        return self.block.program._core.dtype(self.block.index, self.name)

    @property
    def lod(self) -> list[SequenceLevel]:
        """The levels of sequences of a ragged variable, outermost first."""
        names = self.block.program._core.lod(self.block.index, self.name)
        return [SequenceLevel(*map(self.block.var, level)) for level in names]

    @property
    def lod_level(self) -> int:
        """The number of levels of sequences that its rows are in."""
        return len(self.block.program._core.lod(self.block.index, self.name))

    def _set_lod(self, levels: Sequence[SequenceLevel]) -> None:
        names = [(level.offsets.name, level.steps.name) for level in levels]
        self.block.program._core.set_lod(self.block.index, self.name, names)

    @property
    def writer(self) -> Operator | None:
        """The last op of its block that writes it."""
        from opstep.program import Operator

        op_id = self.program._core.writer(self.block.index, self.name)
        return Operator(self.program, op_id) if op_id else None

    @property
    def persistable(self) -> bool:
        """Does it stay in the scope after a run?"""
        return self.program._core.persistable(self.block.index, self.name)

    @persistable.setter
    def persistable(self, value: bool) -> None:
        self.program._core.set_persistable(self.block.index, self.name, value)

    @property
    def stop_gradient(self) -> bool:
        """Gradients do not flow through it."""
        return self.program._core.stop_gradient(self.block.index, self.name)

    @stop_gradient.setter
    def stop_gradient(self, value: bool) -> None:
        self.program._core.set_stop_gradient(self.block.index, self.name, value)

    def detach(self) -> Variable:
        """A copy through which no gradient flows."""
        from opstep import ops

        copy = ops.assign(self)
        copy.stop_gradient = True
        return copy

    # Without this Python would ask for x[0], x[1], … until there is an error.
    def __iter__(self) -> NoReturn:
        raise Error(
            f"Python cannot go through '{self.name}' element by element while the program is being "
            "built; use indexes, layers.split or layers.While"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise error(
            f"'{self.name}' has no value while the program is being built: fetch it, as in "
            f"exe.run(program, fetch_list=['{self.name}']), or compute it inside "
            "opstep.imperative.guard()"
        )

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        name = function.__name__
        raise error(
            f"np.{name} takes arrays, and '{self.name}' has no value while the program is being "
            "built: use a function of opstep.layers or opstep.ops in its place, or fetch it first"
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise error(
            f"elements of '{self.name}' cannot be set while the program is being built: make a new "
            "variable with ops.where or ops.scatter_nd; between runs the value of a parameter is "
            f"changed by opstep.global_scope().view('{self.name}')[...] = ..."
        )

    # == and != compare identity, so that variables can be kept in sets and lists; see ops.equal.

    def __bool__(self) -> bool:
        raise error(
            f"'{self.name}' has no value while the program is being built, so Python cannot ask "
            "whether it is true; let opstep.to_graph convert the function, use opstep.cond or "
            "opstep.while_loop, or fetch it and look at the array"
        )

    def __float__(self) -> float:
        raise error(
            f"'{self.name}' has no value while the program is being built: fetch it, or compute it "
            "inside opstep.imperative.guard()"
        )

    __int__ = __float__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name} {type_text(self)}>"

    def _repr_html_(self) -> str:
        from opstep.executor import global_scope
        from opstep.show.tables import variable_table

        return variable_table(self, global_scope())


# The debugger finds the names that Python code has for variables.
_core.set_variable_type(Variable)


class Parameter(Variable):
    """A variable that training changes. It lives in block 0 and stays in the scope."""

    __slots__ = ()

    @property
    def trainable(self) -> bool:
        """Does `minimize` change it?"""
        return self.program._core.trainable(self.block.index, self.name)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.program._core.set_trainable(self.block.index, self.name, value)

    @property
    def optimize_attr(self) -> dict[str, float]:
        """How optimizers treat it differently: see `opstep.optimizer.Optimizer`."""
        return self.program._core.var_attrs(self.block.index, self.name)

    @optimize_attr.setter
    def optimize_attr(self, value: Mapping[str, float]) -> None:
        check_optimize_attr(self.name, value)
        self.program._core.set_var_attrs(self.block.index, self.name, value)


def check_optimize_attr(name: str, value: Mapping[str, float]) -> None:
    """Checks options of a parameter for optimizers."""
    for key, number in value.items():
        if key not in OPTIMIZE_ATTRS:
            near = _core.nearest(key, list(OPTIMIZE_ATTRS))
            hint = f"; did you mean '{near}'?" if near else ""
            raise Error(
                f"'{name}': there is no optimize_attr '{key}', "
                f"only {', '.join(OPTIMIZE_ATTRS)}{hint}"
            )
        if not isinstance(number, int | float):
            raise Error(f"'{name}': optimize_attr '{key}' must be a number, not {number!r}")


def type_text(variable: Variable) -> str:
    """`float32[?, 64]`, or `float32[?, 64] in sequences` of a ragged one."""
    sizes = ", ".join("?" if size is None else str(size) for size in variable.shape)
    level = variable.lod_level
    sequences = " in sequences" + " of sequences" * (level - 1) if level else ""
    return f"{variable.dtype}[{sizes}]{sequences}"
