"""`to_graph` called again: with other arguments, in other modes, for other objects, by itself."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from harness import markers
from harness.modes import bits, line_by_line, same
from opstep import imperative, layers

X = np.array([[1, 2, -3], [4, 5, 6]], np.float32)
ONE = np.ones(1, np.float32)
count = 0


def line_of(marked: str) -> str:
    """`(file.py:7)` of the one line of this file that ends with that comment."""
    number = markers.line_of(__file__, marked)
    return re.escape(f"({Path(__file__).name}:{number})")


# --- functions that call themselves


def factorial(n: int) -> int:
    return 1 if n <= 1 else n * factorial(n - 1)


def halves(x: Any, times: int) -> Any:
    if times == 0:
        return x
    y = halves(x, times - 1)
    return y / 2 if y.sum() > 1 else y


def without_end(x: Any) -> Any:
    return x if x.sum() > 100 else without_end(x * 2)  # @recursion


def test_a_function_that_calls_itself() -> None:
    same(lambda x: x * float(factorial(5)), X)
    same(halves, X, 6)

    def inner(x: Any, times: int) -> Any:
        return inner(x * 2, times - 1) if times else x

    same(inner, X, 3)


def test_a_method_named_as_a_function() -> None:
    class Product:
        def factorial(self, x: Any) -> Any:
            return x * float(factorial(4))

    same(Product().factorial, X)


def test_a_recursion_on_a_tensor_is_told() -> None:
    with pytest.raises(opstep.Error, match="write it as a loop " + line_of("recursion")):
        opstep.to_graph(without_end)(X)
    main = opstep.Program("main")
    with opstep.program_guard(main, opstep.Program("startup")):
        x = layers.data("x", [2, 3])
        with pytest.raises(opstep.Error, match="write it as a loop"):
            opstep.to_graph(without_end)(x)
    assert bits(opstep.to_graph(halves)(X, 2)) == bits(line_by_line(halves, X, 2))


# --- arguments that are no tensors


@dataclasses.dataclass
class Settings:
    k: float


class Object:
    def __init__(self, k: Any) -> None:
        self.k = k


def builds(function: Callable[..., Any]) -> tuple[opstep.convert.Converted, list[int]]:
    """It converted, and a list that grows with each program made."""
    made: list[int] = []

    def counted(*args: Any) -> Any:
        made.append(1)
        return function(*args)

    return opstep.to_graph(counted), made


def test_an_object_is_not_taken_for_another() -> None:
    scaled, made = builds(lambda x, settings: x * settings.k)
    assert [scaled(ONE, Settings(float(k)))[0] for k in (1, 2, 3, 1)] == [1, 2, 3, 1]
    assert [scaled(ONE, Object(float(k)))[0] for k in range(5)] == [0, 1, 2, 3, 4]
    kept = Object(2.0)
    made.clear()
    assert [scaled(ONE, kept)[0] for _ in range(3)] == [2, 2, 2]
    assert len(made) == 1


def test_a_changed_object_gets_a_program_of_its_own() -> None:
    scaled = opstep.to_graph(lambda x, settings: x * settings.k)
    for settings in (Settings(1.0), Object(1.0)):
        assert scaled(ONE, settings)[0] == 1
        settings.k = 5.0
        assert scaled(ONE, settings)[0] == 5
    inner = Object(Object([1.0]))
    deep = opstep.to_graph(lambda x, settings: x * settings.k.k[0])
    assert deep(ONE, inner)[0] == 1
    inner.k.k[0] = 7.0
    assert deep(ONE, inner)[0] == 7
    inner.k.other = inner  # which cannot be compared
    assert deep(ONE, inner)[0] == 7
    inner.k.k[0] = 8.0
    assert deep(ONE, inner)[0] == 8


def test_what_cannot_be_compared_is_asked_each_time() -> None:
    drawn = opstep.to_graph(lambda x, random: x * float(random.random()))
    random, again = np.random.default_rng(0), np.random.default_rng(0)
    got = [drawn(ONE, random)[0] for _ in range(3)]
    assert got == [np.float32(again.random()) for _ in range(3)]
    size = opstep.to_graph(lambda x, items: x * float(len(items)))
    items = {1}
    assert size(ONE, items)[0] == 1
    items.add(2)
    assert size(ONE, items)[0] == 2


def test_equal_numbers_that_are_not_the_same() -> None:
    divided = opstep.to_graph(lambda x, z: x / z)
    with np.errstate(all="ignore"):
        assert divided(ONE, 0.0)[0] == np.inf and divided(ONE, -0.0)[0] == -np.inf
        small = opstep.to_graph(lambda x, z: x / float(z[0]))
        zeros = np.float32(0.0), np.float32(-0.0)
        assert [small(ONE, (z,))[0] for z in zeros] == [np.inf, -np.inf]
    told = opstep.to_graph(lambda x, value: (x, type(value).__name__))
    assert [told(ONE, v)[1] for v in (1, 1.0, True)] == ["int", "float", "bool"]
    keys = opstep.to_graph(lambda x, value: (x, type(next(iter(value))).__name__))
    assert [keys(ONE, {v: 2})[1] for v in (1, 1.0, True)] == ["int", "float", "bool"]
    frozen = dataclasses.make_dataclass("Frozen", ["k"], frozen=True)
    held = opstep.to_graph(lambda x, value: (x, type(value.k).__name__))
    assert [held(ONE, frozen(v))[1] for v in (1, 1.0, True)] == ["int", "float", "bool"]


def test_programs_are_kept_for_equal_arguments() -> None:
    told, made = builds(lambda x, *_: x * 2)
    net = imperative.FC(2)
    for _ in range(3):
        given = (1, None, "a", [1.0, (2,)], {"k": slice(1, 2)}, {3}, np.float32(1), np.dtype("i4"))
        told(ONE, *given, factorial, Settings(1.0), Path("a"), net, len, Object)
    assert len(made) == 1


# --- layers that are no owners


def with_dropout() -> imperative.Sequential:
    imperative.seed(1)
    return imperative.Sequential(imperative.FC(3), imperative.Dropout(0.5), imperative.BatchNorm())


class Agent:
    def __init__(self, net: imperative.Layer) -> None:
        self.net = net

    @opstep.to_graph
    def act(self, x: Any) -> Any:
        return self.net(x)


@pytest.mark.parametrize("kind", ["closure", "attribute", "argument"])
def test_eval_of_a_layer_that_is_used(kind: str) -> None:
    net, twin = with_dropout(), with_dropout()
    called: Any = opstep.to_graph(lambda x: net(x))
    if kind == "attribute":
        called = Agent(net).act
    elif kind == "argument":
        of_two = opstep.to_graph(lambda used, x: used(x))

        def called(x: Any) -> Any:
            return of_two(net, x)

    imperative.seed(1)
    got = [called(X)]
    net.eval()
    got += [called(X), called(X)]
    net.train()
    got += [called(X), called(X)]
    imperative.seed(1)
    with imperative.no_grad():
        wanted = [line_by_line(twin, X)]
        twin.eval()
        wanted += [line_by_line(twin, X), line_by_line(twin, X)]
        twin.train()
        wanted += [line_by_line(twin, X), line_by_line(twin, X)]
    assert bits(got) == bits(wanted)
    assert bits(net.state_dict()) == bits(twin.state_dict())


class ByFunction(imperative.Layer):
    def forward(self, x: Any) -> Any:
        return layers.dropout(layers.fc(x, 2), 0.5, is_test=not self.training)


@pytest.mark.parametrize("make", [with_dropout, ByFunction])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_trained_state_for_a_net_that_was_only_tested(make: Any, compiled: bool) -> None:
    trained, tested = make(), make()
    with imperative.no_grad():
        line_by_line(trained, X)
        tested.eval()
        called = opstep.to_graph(tested) if compiled else tested
        called(X) if compiled else line_by_line(called, X)
        tested.load_state_dict(trained.state_dict())
        trained.eval()
        assert bits(line_by_line(trained, X)) == bits(line_by_line(tested, X))
        assert bits(trained.state_dict()) == bits(tested.state_dict())
        tested.train()
        line_by_line(tested, X)
    (counted,) = (v for name, v in tested.state_dict().items() if name.endswith("count"))
    assert counted == 2
    with pytest.raises(opstep.Error, match="no 'other' to load"):
        tested.load_state_dict(trained.state_dict() | {"other": X})


def test_a_layer_can_be_copied_after_to_graph() -> None:
    net = imperative.Sequential(imperative.FC(2), imperative.FC(3))
    wanted = opstep.to_graph(net)(X)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert bits(opstep.to_graph(twin)(X)) == bits(wanted)
        twin.step_0.w.numpy()[:] = 0
        assert bits(opstep.to_graph(net)(X)) == bits(wanted)


# --- methods


def test_a_method_of_any_object() -> None:
    @dataclasses.dataclass
    class Scale:
        k: float

        @opstep.to_graph
        def of(self, x: Any) -> Any:
            return x * self.k

    one, other = Scale(2.0), Scale(3.0)
    assert [each.of(ONE)[0] for each in (one, other, one)] == [2, 3, 2]

    @dataclasses.dataclass(frozen=True)
    class Over:
        k: float

        @opstep.to_graph
        def of(self, x: Any) -> Any:
            return x / self.k

    with np.errstate(all="ignore"):
        zeros = Over(0.0), Over(-0.0)
        assert [each.of(ONE)[0] for each in zeros] == [np.inf, -np.inf]

    class Slots:
        __slots__ = ("k",)

        @opstep.to_graph
        def of(self, x: Any) -> Any:
            return x * self.k

    slots = Slots()
    slots.k = 2.0
    sentence = "add '__weakref__' to its __slots__ " + line_of("slots")
    with pytest.raises(opstep.Error, match=sentence):
        slots.of(ONE)  # @slots


def test_the_programs_of_a_method_are_kept_as_long_as_its_object() -> None:
    made: list[int] = []

    class Scale:
        k = 2.0

        @opstep.to_graph
        def of(self, x: Any) -> Any:
            made.append(1)
            return x * self.k

    one = Scale()
    assert [one.of(ONE)[0] for _ in range(3)] == [2, 2, 2] and len(made) == 1
    assert one.of.scope is one.of.scope
    seen = weakref.ref(one)
    del one
    gc.collect()
    assert seen() is None
    assert not Scale.__dict__["of"]._of_objects


# --- with while_ in imperative mode


class Steps(imperative.Layer):
    """The same loop by `while_` and by Python's own."""

    def __init__(self, explicit: bool) -> None:
        super().__init__()
        self.inner, self._explicit = with_dropout(), explicit
        self.scale = layers.create_parameter([3], "float32")

    def step(self, x: Any) -> Any:
        return layers.fc(self.inner(x) * self.scale, 3, name="last")

    def forward(self, x: Any) -> Any:
        if not self._explicit:
            for _ in range(3):
                x = self.step(x)
            return x
        with opstep.while_(lambda i, _: i < 3, (0, x)) as loop:
            i, x = loop.vars
            loop.next(i + 1, self.step(x))
        return loop.vars[1]


def test_layers_in_an_imperative_while() -> None:
    got = []
    for explicit in (False, True):
        imperative.seed(3)
        net = Steps(explicit)
        with imperative.no_grad():
            got.append([line_by_line(net, X), line_by_line(net, X), net.state_dict()])
    assert bits(got[0]) == bits(got[1])


def test_an_imperative_while_drops_no_gradient() -> None:
    net = imperative.FC(3)
    k = imperative.to_variable(X.copy(), stop_gradient=False)
    bodies: list[Callable[[Any], Any]] = [lambda y: y * 2 + k, net]
    for body in bodies:
        with imperative.guard():
            x = imperative.to_variable(np.abs(X))
            with pytest.raises(opstep.Error, match="no gradient flows through 'with while_'"):
                with opstep.while_(lambda i, _: i < 2, (0, x)) as loop:
                    i, y = loop.vars
                    loop.next(i + 1, body(y))
            with imperative.no_grad(), opstep.while_(lambda i, _: i < 2, (0, x)) as loop:
                i, y = loop.vars
                loop.next(i + 1, body(y))
            with imperative.no_grad():
                assert bits(loop.vars[1].numpy()) == bits(body(body(x)).numpy())


# --- sources


# fmt: off
NESTED = lambda: opstep.to_graph(lambda x: x * 2.0)(X)  # noqa: E731
SHADOWED = lambda x: (lambda x: x * 2.0 if x.sum() > 0 else x)(x) + 1.0  # noqa: E731
PAIR = [lambda x: x * 2.0, lambda x: (lambda x: x * 3.0)(x)]


def counts(x: Any) -> Any:
    global count; count = count + 1  # noqa: E702 # @global
    return x
# fmt: on


def test_a_lambda_in_a_lambda() -> None:
    assert bits(NESTED()) == bits(X * 2)
    same(SHADOWED, X)
    for each in PAIR:
        same(each, X)


def test_a_global_name_on_one_line() -> None:
    with pytest.raises(opstep.Error, match="a global name is given a value.*" + line_of("global")):
        opstep.to_graph(counts)
