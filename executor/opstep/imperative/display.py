"""The display of runtime values and layers: at a prompt, in pdb, in an editor's variables.

Nothing here runs an op or changes anything: a debugger may ask while the process is stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from opstep.imperative.layer import Layer
    from opstep.imperative.value import Value

_PRIVATE = re.compile("_[^_]")
# NumPy leaves elements of larger arrays out; so a few NaNs among many elements would not be seen.
_SHOWN = 1000
# A larger array is not searched for NaNs each time that it is shown.
_SEARCHED = 1 << 22


def value_text(value: Value) -> str:
    """`Value([1., 2.], dtype=float32)`: the elements as NumPy shows them, then what they hide."""
    head = f"{type(value).__name__}("
    array = value.numpy()
    notes = [np.array2string(array, threshold=_SHOWN, separator=", ", prefix=head)]
    if array.size > _SHOWN or array.size == 0:
        notes.append(f"shape={value.shape}")
    notes.append(f"dtype={value.dtype}")
    if value._name:
        notes.append(f"name='{value._name}'")
    if not value.stop_gradient:
        notes.append("stop_gradient=False")
    if _SHOWN < array.size <= _SEARCHED and (bad := _not_finite(array)):
        notes.append(bad)
    return head + ", ".join(notes) + ")"


def _not_finite(array: np.ndarray) -> str:
    """How many elements are NaN or Inf; "" when there are none."""
    if array.dtype.kind != "f":
        return ""
    counts = (int(np.isnan(array).sum()), "nan"), (int(np.isinf(array).sum()), "inf")
    return " and ".join(f"{number:,} {what}" for number, what in counts if number)


def attributes(names: list[str]) -> list[str]:
    """The attributes of a value that may be read while the process is stopped: `T` would run an op,
    and those with an underscore are not for people."""
    return [name for name in names if name != "T" and not _PRIVATE.match(name)]


def layer_attributes(base: type[Layer], layer: Layer, names: list[str]) -> list[str]:
    """The attributes of a layer and the values that it keeps, without those of all layers."""
    shown = {name for name in names if name not in _own(base)}
    return sorted(shown | {key for key in layer._values if key.isidentifier()})


@cache
def _own(base: type[Layer]) -> frozenset[str]:
    return frozenset(name for name in (*vars(base), *vars(base())) if _PRIVATE.match(name))


def layer_text(layer: Layer) -> str:
    """The layer and those inside it, one a line, with what each keeps."""
    return "\n".join(_lines(layer, "", ""))


def _lines(layer: Layer, name: str, indent: str) -> Iterator[str]:
    kept = ", ".join(f"{key} {_type(value)}" for key, value in layer._values.items())
    head = f"{name}: " if name else ""
    yield f"{indent}{head}{type(layer).__name__}" + (f"({kept})" if kept else "()")
    for key, inner in layer._layers.items():
        yield from _lines(inner, key, indent + "  ")


def _type(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}"
