"""`to_graph`: a function or Layer as a program for the shapes that it is called with."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from opstep import _core, ops, owners
from opstep.context import _context, program_guard
from opstep.convert.calls import call
from opstep.convert.function import _LIBRARIES, converted
from opstep.convert.keys import Unknown, key_of
from opstep.convert.merged_values import kind_of, mapped
from opstep.convert.number import Number
from opstep.convert.running_loops import counted
from opstep.convert.state import Unset
from opstep.convert.trace import Trace, recording
from opstep.convert.user_errors import error_at, error_here
from opstep.executor import CompiledProgram, Scope, compile, global_scope
from opstep.imperative.layer import Layer
from opstep.imperative.mode import no_grad
from opstep.imperative.programs import layers_of
from opstep.imperative.value import Value, to_variable
from opstep.layers import data
from opstep.program import Program
from opstep.variable import Variable

# The largest number of programs of one function; the least recently used is dropped.
_KEPT = 64


class Spec:
    """A tensor that does not exist yet: its sizes, None for any size, and its dtype."""

    def __init__(self, shape: Sequence[int | None], dtype: Any = "float32") -> None:
        self.shape, self.dtype = tuple(shape), _core.dtype_name(dtype)

    def __repr__(self) -> str:
        return f"Spec({list(self.shape)}, '{self.dtype}')"


class ConvertedProgram(Program):
    """The program that a function became; it runs with the function's own values."""

    feeds: list[Variable]
    """The arguments that are tensors, by their names."""
    fetches: list[Variable]
    """The results: `out`, or `out_0`, `out_1`, … of a tuple or list, or the keys of a dict."""
    startup: Program
    """Fills variables added later, such as an optimizer's state. The parameters have values."""


class _Graph:
    """A program and how to call it as the function was called."""

    def __init__(self, program: ConvertedProgram, result: Any, trace: Trace) -> None:
        self.program = program
        self._result = result
        layers = list(layers_of(program).parts)
        tree = [each for layer in layers for _, each in layer._tree()]
        self._training = weakref.WeakKeyDictionary({each: each.training for each in tree})
        self.values = [value for value, _ in trace.values.values()]
        self.values += [value for layer in layers for value in layer._values.values()]
        self._callable: CompiledProgram | None = None

    def fits(self) -> bool:
        """Are its layers in the modes that it was made for?"""
        return all(layer.training == was for layer, was in self._training.items())

    def run(self, arrays: list[np.ndarray], scope: Scope) -> Any:
        """The function's result, with arrays for tensors."""
        if self._callable is None:
            program = self.program
            self._callable = compile(program, program.feeds, program.fetches, scope)
        found = dict(zip(self._callable.fetches, self._callable(*arrays), strict=True))

        def fill(leaf: Any) -> Any:
            if not isinstance(leaf, Variable):
                return leaf
            array = found[leaf.name]
            return array.item() if isinstance(leaf, Number) else array

        return mapped(fill, self._result)


class _Kept:
    """The programs of a function, or of a method of one object."""

    def __init__(self) -> None:
        self.scope = Scope()
        # The programs of one function share the objects that it makes.
        self.owner = owners.new_owner(self)
        self.graphs: dict[Any, list[_Graph]] = {}
        self.lock = threading.RLock()

    def find(self, key: Any) -> _Graph | None:
        every = self.graphs.pop(key, None)
        if every is None:
            return None
        self.graphs[key] = every  # the last one is the newest
        return next((each for each in every if each.fits()), None)

    def add(self, key: Any, graph: _Graph) -> None:
        self.graphs.setdefault(key, []).append(graph)
        if sum(map(len, self.graphs.values())) > _KEPT:
            oldest = next(iter(self.graphs))
            del self.graphs[oldest][0]
            if not self.graphs[oldest]:
                del self.graphs[oldest]


class Converted:
    """A function or Layer that runs compiled: see `to_graph`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if isinstance(function, Converted):
            function = function.function
        if not callable(function):
            raise error_here(f"to_graph takes a function or a Layer, not {function!r}")
        plain = inspect.unwrap(function.forward if isinstance(function, Layer) else function)
        plain = plain.__func__ if isinstance(plain, MethodType) else plain
        if isinstance(plain, functools.partial):
            plain = plain.func
        if isinstance(plain, Converted):
            plain = plain.function
        library = (getattr(plain, "__module__", None) or "").startswith("opstep.")
        if isinstance(plain, FunctionType) and not library:
            converted(plain)  # reports at once what cannot be converted
        elif not isinstance(plain, FunctionType) and inspect.isbuiltin(plain):
            raise error_here(
                f"'{plain.__name__}' is not a Python function, so there is nothing to convert: "
                "call it from one"
            )
        called = function.forward if isinstance(function, Layer) else function
        self._begin(function, inspect.signature(called), _Kept())

    def _begin(self, function: Any, signature: inspect.Signature, kept: _Kept) -> None:
        self._signature, self._kept = signature, kept
        self.function = function
        """The original function, for calls line by line."""
        self.scope = kept.scope
        """The values of the programs, over the same memory as those of layers."""
        # By the id of an object whose method it is; the object is not kept.
        self._of_objects: dict[int, tuple[weakref.ref[Any], _Kept]] = {}
        self._method_signature: inspect.Signature | None = None
        if not isinstance(function, Layer):
            functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = self._arguments(args, kwargs)
        if leaves.variables:
            return self._into(leaves.variables[0].program, args, kwargs)
        if _context.trace is not None:
            return call(self.function, *args, **kwargs)
        graph = self._graph(leaves)
        values = [v for v in leaves.tensors if isinstance(v, Value)]
        if _context.imperative and recording() and _any_gradient([*values, *graph.values]):
            # Line by line the tape sees each op; results are the same bits.
            with counted():
                return self.function(*args, **kwargs)
        result = graph.run([np.asarray(v) for v in leaves.tensors], self.scope)
        if not _context.imperative and not values:
            return result
        with no_grad():
            return mapped(lambda v: to_variable(v) if isinstance(v, np.ndarray) else v, result)

    def program(self, *args: Any, **kwargs: Any) -> ConvertedProgram:
        """A program for such arguments, where an `opstep.Spec` stands for a tensor: a new one, so
        that a training step can be added to it."""
        return self._build(self._arguments(args, kwargs)).program

    def __get__(self, instance: Any, owner: type | None = None) -> Converted:
        if instance is None:
            return self
        method = MethodType(self.function, instance)
        if self._method_signature is None:
            self._method_signature = inspect.signature(method)
        bound = Converted.__new__(Converted)
        bound._begin(method, self._method_signature, self._kept_of(instance))
        return bound

    def _kept_of(self, instance: Any) -> _Kept:
        key, every = id(instance), self._of_objects
        with self._kept.lock:
            found = every.get(key)
            if found is None or found[0]() is not instance:
                try:
                    seen = weakref.ref(instance, lambda _: every.pop(key, None))
                except TypeError:
                    name = getattr(self.function, "__name__", "the method")
                    raise error_here(
                        f"the programs of '{name}' are kept for as long as its object, but "
                        f"class {type(instance).__name__} does not tell when that ends: add "
                        "'__weakref__' to its __slots__"
                    ) from None
                found = every[key] = seen, _Kept()
        return found[1]

    def __repr__(self) -> str:
        return f"<to_graph of {getattr(self.function, '__name__', self.function)!r}>"

    # --- programs

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            name = getattr(self.function, "__name__", type(self.function).__name__)
            raise error_here(f"{name}: {error}") from None
        bound.apply_defaults()
        return _Arguments(bound)

    def _into(self, program: Program, args: Any, kwargs: Any) -> Any:
        """A call with variables: adds the function to their program."""
        if _context.trace is not None:
            return call(self.function, *args, **kwargs)
        trace = Trace(program, program._scope or global_scope(), own=False)
        with _ending(), trace.entered():
            return call(self.function, *args, **kwargs)

    def _graph(self, leaves: _Arguments) -> _Graph:
        key = (leaves.key, _modes(self.function))
        with self._kept.lock:
            found = self._kept.find(key) if leaves.known else None
            if found is None:
                found = self._build(leaves)
                if leaves.known:
                    self._kept.add(key, found)
        return found

    def _build(self, leaves: _Arguments) -> _Graph:
        name = getattr(self.function, "__name__", None) or type(self.function).__name__.lower()
        name = name if name.isidentifier() else "converted"
        program = ConvertedProgram(name)
        owners.enter(program, self._kept.owner)
        program.startup = Program(f"{name}_startup")
        program._scope = self.scope
        trace = Trace(program, self.scope, own=True)
        trace.seed()
        around = _context.layer, _context.names, _context.building
        _context.layer, _context.names, _context.building = None, "", None
        try:
            with _ending(), program_guard(program, program.startup), trace.entered():
                program.feeds, args, kwargs = leaves.declared()
                result = call(self.function, *args, **kwargs)
                result, program.fetches = _named(program, result)
        finally:
            _context.layer, _context.names, _context.building = around
        trace.fill(program.startup)
        program.startup = program._startup = Program(f"{name}_startup")
        program.startup._scope = self.scope
        return _Graph(program, result, trace)


class _Arguments:
    """The arguments of a function: tensors, and the rest, which a program depends on."""

    def __init__(self, bound: inspect.BoundArguments) -> None:
        self._bound = bound
        self.known = True
        """Does the key contain everything that a program depends on?"""
        self.tensors: list[Any] = []
        self.variables: list[Variable] = []
        self._labels: list[str] = []
        self.key = tuple((name, self._key(value, name)) for name, value in bound.arguments.items())

    def _key(self, value: Any, label: str) -> Any:
        if isinstance(value, Variable):
            self.variables.append(value)
            return None
        if isinstance(value, Value | np.ndarray | Spec):
            self.tensors.append(value)
            self._labels.append(label)
            return (Spec, _core.dtype_name(value.dtype), tuple(value.shape))
        if isinstance(value, dict):
            inner = ((self._rest(k), self._key(v, f"{label}_{k}")) for k, v in value.items())
            return (dict, *inner)
        if isinstance(value, tuple | list):
            inner = (self._key(v, f"{label}_{n}") for n, v in enumerate(value))
            return (type(value), *inner)
        return self._rest(value)

    def _rest(self, value: Any) -> Any:
        try:
            return key_of(value, ())
        except Unknown:
            self.known = False
            return None

    def declared(self) -> tuple[list[Variable], tuple[Any, ...], dict[str, Any]]:
        """A feed for each tensor, and the arguments with these in their places."""
        feeds: list[Variable] = []

        def declare(value: Any) -> Any:
            if not isinstance(value, Value | np.ndarray | Spec):
                return value
            feed = data(self._labels[len(feeds)], list(value.shape), value.dtype)
            feed.stop_gradient = getattr(value, "stop_gradient", True)
            feeds.append(feed)
            return feed

        bound = inspect.BoundArguments(self._bound.signature, self._bound.arguments.copy())
        for name, value in bound.arguments.items():
            bound.arguments[name] = mapped(declare, value)
        return feeds, bound.args, bound.kwargs


@contextmanager
def _ending() -> Iterator[None]:
    """Reports an endless recursion in one sentence."""
    try:
        yield
    except RecursionError as error:
        place, trace = ("", 0), error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if not file.startswith(_LIBRARIES):
                place = file, trace.tb_lineno
            trace = trace.tb_next
        raise error_at(
            "functions call each other deeper than Python allows: while a program is built both "
            "sides of a condition on a tensor are run, so a recursion that depends on one does "
            "not end: write it as a loop",
            *place,
        ) from None


def _named(program: Program, result: Any) -> tuple[Any, list[Variable]]:
    """The results as variables with new names."""
    fetches: list[Variable] = []

    def name(value: Any, label: str) -> Any:
        if isinstance(value, dict):
            return {key: name(v, str(key)) for key, v in value.items()}
        if isinstance(value, tuple | list):
            parts = [name(v, f"{label}_{n}") for n, v in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if isinstance(value, Unset):
            raise error_here(value.why)
        if isinstance(value, Value):
            value = _context.trace.variable(value)  # type: ignore[union-attr]
        kind = kind_of(value)
        if kind is None or not isinstance(value, Variable):
            return value
        number, free = 0, label
        while program.global_block().has_var(free):
            number += 1
            free = f"{label}_{number}"
        made = ops.assign(value, out=free, name=free)
        fetches.append(made)
        return Number.of(made) if kind.number else made

    return name(result, "out"), fetches


def _modes(function: Any) -> Any:
    """The modes of a function's Layers: training or not."""
    owner = getattr(function, "__self__", function)
    if not isinstance(owner, Layer):
        return None
    return (owner.training, *(layer.training for layer in owner.sublayers()))


def _any_gradient(values: list[Value]) -> bool:
    return any(not value.stop_gradient for value in values)


def to_graph(function: Callable[..., Any]) -> Converted:
    """The function or Layer, compiled: a call makes a program for the shapes and dtypes of its
    tensors (and the values of its other arguments), keeps it, and runs it. Also as a decorator.

    Python's `if`, `while`, `for`, `and`, `or`, `not` become ops of the program where they depend on
    a tensor, in functions that it calls too. Called with variables it adds itself to their program;
    `.program(...)` gives the program without running it. In imperative mode, where a gradient
    will be wanted, it runs line by line, with the same results.

    Python runs only while a program is made. The function reads everything besides its arguments
    then, once: globals, names of functions around it, attributes of objects such as `self` and of
    layers, and the hooks of layers. Its side effects also happen then, once. Later calls see no
    change of those, except for the elements of values and parameters, which are shared, and
    `train()` and `eval()` of the layers that it calls. Arguments other than tensors may change: a
    new program is made when their attributes have changed, and in each call for an object that
    cannot be compared, such as a generator of random numbers.
    """
    return Converted(function)
