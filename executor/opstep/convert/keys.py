"""Keys of arguments: a program is made again when a key differs."""

from __future__ import annotations

import dataclasses
import enum
import functools
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from opstep.imperative.layer import Layer


class Unknown(Exception):
    """A value that may change until the next call without a way to notice it."""


class Same:
    """The key of one object. It keeps the object, so that no other one gets its id."""

    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        self._of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._of is other._of

    def __hash__(self) -> int:
        return id(self._of)


_PLAIN = (int, bool, str, bytes, type(None), type(...), type(NotImplemented))
_FIXED = (type, FunctionType, ModuleType, enum.Enum, np.dtype)
_CONTAINERS = (list, set, frozenset)
# Flag of a class that Python code defines.
_HEAP_TYPE = 1 << 9


def key_of(value: Any, inside: tuple[int, ...]) -> Any:
    """Equal for values that can share a program; `inside` are the objects around the value."""
    kind = type(value)
    if kind in _PLAIN:
        return (kind, value)
    if kind in (float, complex):
        return (kind, repr(value))  # 0.0 == -0.0
    if isinstance(value, np.generic):
        return (kind, str(value.dtype), value.tobytes())
    if isinstance(value, Layer):
        return (Same(value), *(layer.training for _, layer in value._tree()))
    if isinstance(value, _FIXED) or any(_own(each) for each in kind.__mro__):
        return Same(value)
    if kind is BuiltinFunctionType and isinstance(value.__self__, ModuleType):
        return Same(value)  # no method, such as [].append
    if id(value) in inside:
        raise Unknown
    inside = (*inside, id(value))

    def several(*values: Any) -> Any:
        return (kind, *(key_of(each, inside) for each in values))

    if isinstance(value, tuple) or kind in _CONTAINERS:
        return several(*value)
    if kind is dict:
        return several(*value.items())
    if isinstance(value, slice | range):
        return several(value.start, value.stop, value.step)
    if isinstance(value, functools.partial):
        return several(value.func, value.args, value.keywords)
    if isinstance(value, MethodType):
        return several(value.__func__, value.__self__)
    if all(each is object or each.__flags__ & _HEAP_TYPE for each in kind.__mro__):
        slots = {name for each in kind.__mro__ for name in _slots(each)}
        if hasattr(value, "__dict__") or dataclasses.is_dataclass(kind):
            held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
            held |= getattr(value, "__dict__", {})
            one = () if dataclasses.is_dataclass(kind) else (Same(value),)
            return (kind, *one, several(*sorted(held.items(), key=lambda item: item[0])))
    elif hasattr(value, "__dict__"):
        raise Unknown
    hashed: Any = kind.__hash__
    if hashed is object.__hash__:
        raise Unknown
    try:
        hash(value)
    except TypeError:
        raise Unknown from None
    return (kind, value, repr(value))


def _own(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "opstep"


def _slots(kind: type) -> list[str]:
    names = kind.__dict__.get("__slots__", ())
    names = [names] if isinstance(names, str) else list(names)
    return [name for name in names if name not in ("__dict__", "__weakref__")]
