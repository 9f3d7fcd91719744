"""Making the parameters of layers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opstep import _core
from opstep.executor import Scope
from opstep.imperative.mode import _seeds, guard
from opstep.imperative.value import ParameterValue, Value
from opstep.initializer import Initializer, next_seed
from opstep.variable import Parameter, Variable

_own_parameters_made = itertools.count()


def new_parameter(
    name: str,
    shape: Sequence[int],
    dtype: Any,
    initializer: Initializer,
    trainable: bool = True,
    optimize_attr: Mapping[str, float] | None = None,
) -> ParameterValue:
    """A parameter, filled at once by the op that a startup program would have."""
    kind = _core.dtype_name(dtype)
    made = ParameterValue(np.empty(shape, _core.numpy_dtype(kind)), name, trainable)
    if optimize_attr:
        made.optimize_attr = optimize_attr
    with guard():
        initializer.fill(made.shape, kind, next_seed(_seeds), name=f"{name}.init", out=made)
    made.stop_gradient = not trainable
    return made


def own_parameter(name: str, shape: Sequence[int], dtype: Any, *options: Any) -> ParameterValue:
    """A parameter that remembers how it was filled, for the programs that its layer will join."""
    made = new_parameter(name, shape, dtype, *options)
    made._first = next(_own_parameters_made), options[0]
    return made


def value_of(variable: Variable, scope: Scope) -> Value:
    """The value that a program's variable has in the scope."""
    array = scope.find(variable)
    if not isinstance(variable, Parameter):
        return Value(array, name=variable.name)
    value = ParameterValue(array, variable.name, variable.trainable)
    value.optimize_attr = variable.optimize_attr
    value.stop_gradient = not variable.trainable
    return value
