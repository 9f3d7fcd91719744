"""OpBuilder: collects the ops that one node of a graph becomes, and appends them to the program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from opstep import _core
from opstep.program import Program
from opstep.torch.memory import COMPUTED, held
from opstep.torch.refusals import NotLowered


@dataclass(eq=False)
class Value:
    """A tensor of the graph: a variable of the program, from the moment that its op is appended.

    The result of one op inside a lowering has neither `dtype` nor `shape`, unless they were given.
    """

    name: str = ""
    dtype: torch.dtype | None = None
    shape: tuple[int, ...] | None = None
    fake: torch.Tensor | None = None
    # A transposed matrix that no op has made yet: products read the original.
    transposed: Value | None = None
    # What shows that two values differ only in name: the graph's tensor that it is.
    producer: Any = None

    @property
    def rank(self) -> int:
        assert self.shape is not None
        return len(self.shape)


@dataclass
class _Op:
    type: str
    inputs: dict[str, list[Value]]
    attrs: dict[str, Any]
    outputs: dict[str, list[Value]]


@dataclass
class _Slots:
    inputs: list[str]
    outputs: list[dict[str, Any]]
    attrs: set[str]


@cache
def _slots(op_type: str) -> _Slots:
    schema = _core.op(op_type)
    return _Slots(
        [slot["name"] for slot in schema["inputs"]],
        schema["outputs"],
        {attr["name"] for attr in schema["attrs"]},
    )


_op_types = frozenset(_core.op_types())


class OpBuilder:
    """`op.relu(x)` adds an op and gives its result, or a tuple of its results.

    Inputs are given in the order of the slots or by name, attributes by name. `also` names optional
    outputs that are wanted, `result` is its dtype, `into` has the values that the only
    output slot makes, and `fake` is what torch says about the node's result.
    """

    def __init__(self, program: Program, fake: Any) -> None:
        self.fake = fake
        self._program = program
        self._ops: list[_Op] = []

    def __getattr__(self, op_type: str) -> Any:
        # `op.while_` for an op whose name is a word of Python.
        name = op_type.rstrip("_")
        if name not in _op_types:
            raise AttributeError(op_type)
        return lambda *args, **kwargs: self.append(name, args, kwargs)

    def append(self, op_type: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        slots = _slots(op_type)
        also = kwargs.pop("also", ())
        dtype = kwargs.pop("result", None)
        into = kwargs.pop("into", None)
        given = dict(zip(slots.inputs, args, strict=False))
        attrs: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key in slots.attrs:
                attrs[key] = value
            elif key in slots.inputs:
                given[key] = value
            else:
                raise TypeError(f"{op_type} has no argument '{key}'")
        inputs: dict[str, list[Value]] = {}
        for key, value in given.items():
            if value is None:
                continue
            values = list(value) if isinstance(value, list | tuple) else [value]
            inputs[key] = [self.plain(each) for each in values]
        outputs: dict[str, list[Value]] = {}
        results: list[Any] = []
        for slot in slots.outputs:
            if slot["optional"] and slot["name"] not in also:
                continue
            count = len(attrs["split"]) if slot["variadic"] and into is None else 1
            values = [Value(dtype=dtype) for _ in range(count)] if into is None else into
            outputs[slot["name"]] = values
            results.append(values if slot["variadic"] else values[0])
        self._ops.append(_Op(op_type, inputs, attrs, outputs))
        return results[0] if len(results) == 1 else tuple(results)

    def foreign_call(
        self, target: str, key: str, inputs: list[Value], results: list[Value]
    ) -> None:
        """An op that calls a function of torch."""
        types = [str(held(each.fake).type) for each in results]  # type: ignore[arg-type]
        self.foreign(inputs, target=target, key=key, types=types, into=results)

    # --- what many lowerings need

    def plain(self, value: Any) -> Value:
        """The value with an op that makes it, if it is a transposed matrix without one."""
        if not isinstance(value, Value):
            raise NotLowered(f"{type(value).__name__} where a tensor is needed")
        if value.transposed is not None and not value.name and not self._makes(value):
            self.transpose(value.transposed, perm=[1, 0], into=[value])
        return value

    def _makes(self, value: Value) -> bool:
        return any(
            value is each for op in self._ops for values in op.outputs.values() for each in values
        )

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """The value in that dtype."""
        if value.dtype == dtype:
            return value
        if dtype not in COMPUTED:
            raise NotLowered(f"dtype {dtype}")
        made: Value = self.cast_(value, to=COMPUTED[dtype], result=dtype)
        made.shape = value.shape
        return made

    def number(self, value: float | bool, dtype: torch.dtype) -> Value:
        """A Python number as a tensor without dimensions."""
        check_number(value, dtype)
        made: Value = self.fill(shape=[], dtype=COMPUTED[dtype], value=float(value), result=dtype)
        made.shape = ()
        return made

    # --- the end

    def finish(
        self,
        name: str,
        made_by: Callable[[], Any],
        results: list[Value],
        variables: Mapping[int, str],
    ) -> tuple[str, str] | None:
        """Appends the ops; the one that makes the last result gets the node's own name. `variables`
        names values by their `id`. Returns the name and type of that op, None if there are no ops.
        """
        main = self._ops[-1] if self._ops else None
        for op in self._ops:
            if any(value is each for each in results for v in op.outputs.values() for value in v):
                main = op
        made: tuple[str, str] | None = None
        for op in self._ops:
            unique, outputs = self._names(op, name if op is main else f"{name}.{op.type}")
            for slot, values in op.outputs.items():
                for index, value in enumerate(values):
                    own = variables.get(id(value))
                    if own and self._program._core.block_of_var(0, own) < 0:
                        outputs[slot][index] = own
            inputs = {slot: [v.name for v in values] for slot, values in op.inputs.items()}
            attrs = {key: value for key, value in op.attrs.items() if value is not None}
            self._program._append_op(0, op.type, unique, inputs, outputs, attrs, -1, made_by())
            if op is main:
                made = unique, op.type
            for slot, values in op.outputs.items():
                for value, variable in zip(values, outputs[slot], strict=True):
                    value.name = variable
        self._ops = []
        return made

    def _names(self, op: _Op, wanted: str) -> tuple[str, dict[str, list[str]]]:
        """The op's name and those of its outputs: new ones, with a number if need be."""
        core = self._program._core
        for number in itertools.count():
            name = f"{wanted}_{number}" if number else wanted
            outputs = {
                slot: [f"{name}.{slot}"]
                if len(values) == 1
                else [f"{name}.{slot}_{i}" for i in range(len(values))]
                for slot, values in op.outputs.items()
            }
            variables = itertools.chain.from_iterable(outputs.values())
            taken = any(core.block_of_var(0, each) >= 0 for each in variables)
            if not taken and not core.has_op_name(name):
                return name, outputs
        raise AssertionError


def check_number(value: float | bool, dtype: torch.dtype) -> None:
    """Raises unless the number is exact as an integer of that dtype, or it is a float."""
    if dtype not in COMPUTED:
        raise NotLowered(f"dtype {dtype}")
    if dtype.is_floating_point:
        return
    info = torch.iinfo(torch.uint8 if dtype == torch.bool else dtype)
    low, high = (0, 1) if dtype == torch.bool else (info.min, info.max)
    if value != value or value in (float("inf"), -float("inf")) or value != int(value):
        raise NotLowered(f"{value} as {dtype}")
    if not low <= value <= high or abs(value) > 2**53:
        raise NotLowered(f"{value} as {dtype}")
