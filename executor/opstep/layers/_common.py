"""Helpers for layers: names, errors on the user's line, activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opstep import context, errors, ops, owners
from opstep._core import Error
from opstep.imperative.programs import is_filled
from opstep.initializer import AlreadyFilled, Constant, Initializer, add_startup_value, next_seed
from opstep.operators import Operators
from opstep.program import Program
from opstep.variable import Parameter, Variable

# A variable to write into, for loops.
Out = Variable | str | None
Axes = int | Sequence[int] | None
Attrs = Mapping[str, float] | None
# A function of this package: layers are called after it.
Layer = Callable[..., Any]
# An op and its further arguments, by position or by name.
Step = tuple[Layer, tuple[Any, ...] | dict[str, Any]]


def _not_taken(x: Any) -> str:
    if context.imperative():
        kind = type(x).__name__
        return f"takes a value, not {kind}: make it one with opstep.imperative.to_variable"
    if isinstance(x, Operators):
        return (
            "takes a variable of the program, not a runtime value: use those inside "
            "opstep.imperative.guard() only"
        )
    kind = type(x).__name__
    return f"takes a variable of the program, not {kind}: feed it by layers.data"


def base_name(x: Variable, layer: Layer, name: str | None) -> str:
    """The base name of a layer's ops and parameters."""
    owner = context.current_layer()
    if context.imperative() and isinstance(x, Operators) and not isinstance(x, Variable):
        kind = layer.__name__
        return context.scoped(name or kind) if owner is None else owner._base_name(kind, name)
    if not isinstance(x, Variable):
        raise error(layer, _not_taken(x))
    if owner is not None:
        return owner._base_name(layer.__name__, name)
    if not name:
        return x.program.unique_name(layer.__name__)
    base = context.scoped(name)
    x.program._named_layers.add(base)
    return base


def parameter(
    x: Variable,
    name: str,
    shape: Sequence[int],
    init: Initializer,
    attrs: Attrs = None,
    dtype: Any = None,
    trainable: bool = True,
) -> Parameter:
    """A new parameter, of x's dtype unless said otherwise; `attrs` are its `optimize_attr`."""
    dtype = x.dtype if dtype is None else dtype
    if context.imperative():
        return _keeper(name)._parameter(name, shape, dtype, init, trainable, attrs)
    layer = context.current_layer()
    whose = _owner(x.program, name, layer)
    if layer is not None:
        name = layer._name_in_program(name)
        init = AlreadyFilled() if is_filled(layer, x.program, name) else init
    block = x.program.global_block()
    return block._create_parameter(name, shape, dtype, init, trainable, attrs, whose)


def _owner(program: Program, name: str, layer: Any) -> int | None:
    """The owner of a layer's value: the Layer, nobody for a user's name, or (None) the program."""
    if layer is not None:
        return owners.owner_of_object(layer)
    return owners.NOBODY if name.rsplit(".", 1)[0] in program._named_layers else None


def counter(x: Variable, name: str) -> Variable:
    """A whole number that stays from run to run, 0 at first."""
    if context.imperative():
        return _keeper(name)._counter(name)
    owner = context.current_layer()
    whose = _owner(x.program, name, owner)
    if owner is not None:
        name = owner._name_in_program(name)
    block = x.program.global_block()
    if owner is not None and block.has_var(name):
        return block.var(name)
    count = block._create_var(name, [], "int64", persistable=True, stop_gradient=True)
    if whose is not None:
        owners.set_owner(x.program, name, whose)
    if owner is None or not is_filled(owner, x.program, name):
        add_startup_value(count, Constant(0))
    return count


def seed_of(x: Variable, name: str) -> int:
    """A seed for what is random in the layer of that name."""
    if context.imperative():
        return _keeper(name)._seed(name)
    owner = context.current_layer()
    return next_seed(x.program) if owner is None else owner._seed(name)


def _keeper(name: str) -> Any:
    """The Layer that keeps a parameter from call to call."""
    layer = context.current_layer()
    if layer is None:
        raise errors.error(
            f"'{name}' would be made again at each call: in imperative mode call the layer in the "
            "forward() of an opstep.imperative.Layer, which keeps it"
        )
    return layer


def chain(x: Variable, base: str, steps: Sequence[Step]) -> Variable:
    """Ops one after the other, each with its further arguments; the last gives `<base>.out`."""
    for number, (op, others) in enumerate(steps, 1):
        last = {"out": f"{base}.out"} if number == len(steps) else {}
        args, kwargs = ((), others) if isinstance(others, dict) else (others, {})
        x = op(x, *args, **kwargs, name=f"{base}.{op.__name__}", **last)
    return x


def activation(layer: Layer, act: str | None) -> list[Step]:
    """The step for `chain` that an activation's name stands for; none for None."""
    if act is None:
        return []
    try:
        op = getattr(ops, act)
    except AttributeError as failed:
        raise error(layer, f"act='{act}': {failed}") from None
    if not op.takes_one_input:
        raise error(layer, f"act='{act}': {act} is not a function of one variable")
    return [(op, ())]


def text(x: Variable) -> str:
    """Its shape, with ? for unknown sizes."""
    return "[" + ", ".join("?" if size is None else str(size) for size in x.shape) + "]"


def error(layer: Layer, what: str) -> Error:
    """One sentence with the user's line."""
    return errors.error(f"[{layer.__name__}] {what}")
