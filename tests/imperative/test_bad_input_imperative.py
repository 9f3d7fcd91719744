"""What is said of wrong use of imperative mode: one sentence, with the user's line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import opstep
from opstep import imperative, layers, ops
from opstep.imperative import to_variable

HERE = Path(__file__).name
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Net(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = imperative.FC(4)

    def forward(self, x: Any) -> Any:
        return self.fc(x)


class Empty(imperative.Layer):
    pass


class Hasty(imperative.Layer):
    def __init__(self) -> None:
        self.fc = imperative.FC(4)


class World:
    """What the calls below use: values, and variables of a program."""

    def __init__(self) -> None:
        self.x = to_variable(X)
        self.ints = to_variable(np.array([0, 1]))
        self.w = to_variable(X.copy(), stop_gradient=False)
        self.program = opstep.Program("own")
        with opstep.program_guard(self.program, opstep.Program()):
            self.v = layers.data("v", shape=[2, 3])
            self.rows = layers.data("rows", shape=[2], dtype="int64")
            self.mean = layers.mean(self.v)
        self.net = Net()
        self.sgd = opstep.optimizer.SGD(0.1)

    def loss(self) -> Any:
        return (self.w * self.w).sum()

    def backward_twice(self) -> None:
        loss = self.loss()
        loss.backward()
        loss.backward()

    def in_a_thread(self) -> None:
        """The switch is a thread's own."""
        caught: list[Exception] = []

        def work() -> None:
            try:
                _ = self.x + 1
            except opstep.Error as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise caught[0]

    def written_since(self) -> None:
        loss = (self.w * self.w).sum()
        with imperative.no_grad():
            ops.add(self.x, 1.0, out=self.w)
        loss.backward()

    def other_sizes(self) -> None:
        self.net(self.x)
        self.net(to_variable(np.ones((2, 5), np.float32)))


class Case(NamedTuple):
    label: str
    call: Callable[[World], object]
    said: str
    mode: str = "imperative"  # or "program": inside program_guard, or "outside": neither


NO_VALUE = "'v', a variable of a program, which has no value yet"
ONLY_INSIDE = "inside opstep.imperative.guard() only"
NOT_ONE = "a value of shape [2, 3] is not one number; take its mean, sum or one of its elements"
NO_TRUTH = "let opstep.to_graph convert the function, use opstep.cond or opstep.while_loop"

CASES = [
    # Variables of programs where values are wanted.
    Case("value + variable", lambda t: t.x + t.v, f"[add] Y must be a value, not {NO_VALUE}"),
    Case("variable + value", lambda t: t.v + t.x, f"[add] X must be a value, not {NO_VALUE}"),
    Case("variable * number", lambda t: t.v * 2, f"[mul] X must be a value, not {NO_VALUE}"),
    Case("value @ variable", lambda t: t.x @ t.v, f"[matmul] Y must be a value, not {NO_VALUE}"),
    Case("function", lambda t: layers.relu(t.v), f"[relu] X must be a value, not {NO_VALUE}"),
    Case("list", lambda t: layers.concat([t.x, t.v]), NO_VALUE),
    Case("fc(variable)", lambda t: t.net(t.v), NO_VALUE),
    Case(
        "out=", lambda t: ops.assign(t.x, out=t.v), "an output must be a value or a name, not 'v'"
    ),
    Case("cond", lambda t: layers.cond(t.v > 0, lambda: t.x, lambda: t.x), NO_VALUE),
    Case("index", lambda t: t.x[t.rows], "a runtime value and a variable of a program do not go"),
    Case("to_variable", lambda t: to_variable(t.v), "'v' is a variable of a program", "outside"),
    Case("step", lambda t: t.sgd.step([t.v]), "and 'v' is a variable of a program"),
    Case("minimize", lambda t: t.sgd.minimize(t.mean), "call minimize outside of"),
    # Values where variables are wanted.
    Case("variable + value there", lambda t: t.v + t.x, ONLY_INSIDE, "program"),
    Case("value + variable there", lambda t: t.x + t.v, ONLY_INSIDE, "program"),
    Case("function there", lambda t: layers.relu(t.x), ONLY_INSIDE, "program"),
    Case("list there", lambda t: layers.concat([t.v, t.x]), ONLY_INSIDE, "program"),
    Case("fc(value) there", lambda t: layers.fc(t.x, 3), ONLY_INSIDE, "program"),
    Case("Layer there", lambda t: t.net(t.x), ONLY_INSIDE, "program"),
    Case("index there", lambda t: t.v[t.ints], "do not go together", "program"),
    Case("append_backward", lambda t: opstep.append_backward(t.w), "call backward()", "program"),
    Case("fetched", lambda t: t.program.run({"v": X}, [t.x]), "no runtime values", "outside"),
    Case("fed by value", lambda t: t.program.run({t.x: X}, []), "no runtime values", "outside"),
    # Values outside of the mode.
    Case("operator", lambda t: t.x * 2, ONLY_INSIDE, "outside"),
    Case("minus", lambda t: -t.x, ONLY_INSIDE, "outside"),
    Case("compared", lambda t: t.x > 1, ONLY_INSIDE, "outside"),
    Case("method", lambda t: t.x.sum(), ONLY_INSIDE, "outside"),
    Case("row", lambda t: t.x[0], ONLY_INSIDE, "outside"),
    Case("Layer", lambda t: t.net(t.x), ONLY_INSIDE, "outside"),
    Case("another thread", lambda t: t.in_a_thread(), ONLY_INSIDE),
    # Gradients.
    Case("twice", lambda t: t.backward_twice(), "call backward(retain=True) the first time"),
    Case("many", lambda t: (t.w * 2).backward(), "a loss must be one float"),
    Case("of nothing", lambda t: t.x.backward(), "set stop_gradient = False before it is used"),
    Case("of ints", lambda t: to_variable(np.array([1]), False), "only floats have"),
    Case("written since", lambda t: t.written_since(), "was written into since"),
    Case("written", lambda t: ops.add(t.x, 1.0, out=t.w), "do that inside opstep.imperative.no_g"),
    Case("stop_gradient", lambda t: setattr(t.x, "stop_gradient", 0), "is True or False, not 0"),
    # Optimizers and layers.
    Case("no parameters", lambda t: t.sgd.minimize(t.loss()), "say parameters=model.parameters()"),
    Case("none yet", lambda t: t.sgd.step(Net().parameters()), "step was given no parameters"),
    Case("step(layer)", lambda t: t.sgd.step(t.net), "say model.parameters()"),
    Case("step(arrays)", lambda t: t.sgd.step([X]), "step takes parameters, not ndarray"),
    Case("fc alone", lambda t: layers.fc(t.x, 3), "'fc.w' would be made again at each call"),
    Case("an array", lambda t: t.net(X), "[fc] takes a value, not ndarray: make it one with"),
    Case("other sizes", lambda t: t.other_sizes(), "its inputs must keep their sizes"),
    Case("no forward", lambda t: Empty()(t.x), "Empty has no forward(): define what the layer"),
    Case("no super", lambda t: Hasty(), "Hasty: call super().__init__() before setting 'fc'"),
    Case("load", lambda t: t.net.load_state_dict({"fc.w": X}), "Net has no 'fc.w' to load"),
    # Numbers, arrays and shapes.
    Case("float()", lambda t: float(t.x), NOT_ONE),
    Case("int()", lambda t: int(t.x), NOT_ONE),
    Case("bool()", lambda t: bool(t.x), NOT_ONE),
    Case("if", lambda t: 1 if t.x > 2 else 2, NOT_ONE),
    Case("format", lambda t: f"{t.x:.2f}", NOT_ONE),
    Case("no index", lambda t: [1, 2][to_variable(np.array(1.5))], "is not an index: cast it"),
    Case("no rows", lambda t: list(t.x.sum()), "a value without dimensions has no length"),
    Case("shapes", lambda t: t.x + to_variable(np.ones(4, np.float32)), "sizes 3 and 4 do not"),
    Case("dtypes", lambda t: t.x + t.ints, "X is float32 but Y is int64: cast one of them"),
    Case("array", lambda t: t.x + X, "an array: make it a value with"),
    Case("array first", lambda t: X + t.x, "an array: make it a value with"),
    Case("text", lambda t: t.x + "a", "Y must be a value, not a str"),
    Case("None", lambda t: t.x + None, "input 'Y' is missing"),
    Case("object", lambda t: to_variable(object()), "cannot make a value of object"),
    Case("complex", lambda t: to_variable(np.zeros(2, complex)), "an array of dtype complex128"),
    Case("ragged", lambda t: to_variable([[1, 2], [3]]), "its rows have different lengths"),
    Case("seed", lambda t: imperative.seed("a"), "a seed is a whole number, not 'a'"),  # type: ignore[arg-type]
    # A variable that Python wants to know now.
    Case("if variable", lambda t: 1 if t.v > 0 else 2, NO_TRUTH, "program"),
    Case("bool(variable)", lambda t: bool(t.v), NO_TRUTH, "outside"),
    Case("float(variable)", lambda t: float(t.v), "'v' has no value while", "outside"),
    Case("int(variable)", lambda t: int(t.v), "'v' has no value while", "outside"),
]


@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_one_sentence_with_the_line(case: Case) -> None:
    world = World()
    with pytest.raises(opstep.Error) as raised:
        if case.mode == "imperative":
            with imperative.guard():
                case.call(world)
        elif case.mode == "program":
            with opstep.program_guard(world.program, opstep.Program()):
                case.call(world)
        else:
            case.call(world)
    sentence = str(raised.value)
    assert case.said in sentence
    assert f"({HERE}:" in sentence and "\n" not in sentence
    assert not imperative.enabled()


def test_what_is_no_mistake() -> None:
    world = World()
    assert world.w.gradient is None  # before backward
    # A value is fed as its array.
    (mean,) = world.program.prune([world.mean]).run({"v": world.x}, [world.mean.name])
    assert float(mean) == X.mean()
    # NumPy's functions take the array.
    assert np.mean(world.x) == X.mean() and np.stack([world.x, world.x]).shape == (2, 2, 3)


def test_what_gradients_need_is_not_written_into() -> None:
    world = World()
    with imperative.guard():
        squared = world.w * world.w
        with pytest.raises(ValueError, match="read-only"):
            squared.numpy()[0, 0] = 7
        with pytest.raises(ValueError, match="read-only"):
            world.x.elements[0, 0] = 7
        # Memory that is NumPy's as well: backward finds what is there then.
        world.w.numpy()[0, 0] = 7
        squared.sum().backward()
    assert world.w.gradient is not None
    assert float(world.w.gradient.numpy()[0, 0]) == 14


def test_sizes_that_depend_on_numbers() -> None:
    """One line, called with numbers and values that make other shapes."""
    with imperative.guard():
        for stop in (2, 5, 3):
            count = to_variable(np.array(stop))
            assert ops.range(limit=int(count)).numpy().tolist() == [*range(stop)]
            assert layers.one_hot(to_variable(np.array([1])), stop).shape == (1, stop)
            assert ops.fill(shape=[count], dtype="float32", value=1.0).shape == (stop,)
            marked = np.zeros(2000, np.float32)  # larger than what repr() shows
            marked[1000] = stop
            assert ops.constant(value=to_variable(marked)).numpy()[1000] == stop
            assert to_variable(X)[: int(count)].shape == X[:stop].shape
