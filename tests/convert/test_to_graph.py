"""Programs made of functions and layers: kept, shared, differentiated, saved, with their lines."""

from __future__ import annotations

import inspect
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from harness.markers import line_of
from harness.modes import bits, line_by_line, op_types
from opstep import imperative, layers

X = np.array([2, 9, -4], np.float32)
ROWS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def halved(x: Any, limit: float = 1.0) -> Any:
    while layers.reduce_max(layers.abs(x)) > limit:  # @while
        x = x * 0.5  # @body
    if x.sum() > 0:  # @if
        return layers.exp(x)  # @yes
    return x  # @no


def line(marker: str) -> int:
    return line_of(__file__, marker)


class Net(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = imperative.FC(4, act="tanh")
        self.scale = layers.create_parameter([1], initializer=opstep.initializer.Constant(2.0))
        self.drop = imperative.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        h = self.hidden(x)
        while layers.reduce_max(layers.abs(h)) > 0.1:
            h = h * 0.4 * self.scale
        if h.sum() > 0:
            return self.drop(layers.fc(self.shifted(h), 2))
        return layers.fc(h, 2)

    def shifted(self, h: Any) -> Any:
        return h + 1 if h.mean() > 0 else h


def new_net() -> Net:
    imperative.seed(3)
    return Net()


# --- lines ---------------------------------------------------------------------------------------


def test_ops_know_the_lines_of_the_original() -> None:
    program = opstep.to_graph(halved).program(X)
    for block in program.blocks:
        for op in block.ops:
            assert op.stack[0].file == __file__
    lines = {op.type: op.stack[0].line for block in program.blocks for op in block.ops}
    assert lines["while"] == line("while")
    assert lines["mul"] == line("body")
    assert lines["cond"] == line("if")
    assert lines["exp"] == line("yes")
    (op,) = (op for block in program.blocks for op in block.ops if op.type == "mul")
    # The function, and this one, which asked for the program: nothing between them.
    assert [frame.function for frame in op.stack[:2]] == [
        "halved",
        "test_ops_know_the_lines_of_the_original",
    ]


def test_calls_over_several_lines_have_the_line_that_python_gives_them() -> None:
    def f(x: Any) -> Any:
        y = layers.exp(
            x,
        ) + (
            x.sum()
            if x.max() > 0
            else x.mean()
        )  # fmt: skip
        return y  # noqa: RET504

    first = inspect.getsourcelines(f)[1]
    program = opstep.to_graph(f).program(X)
    lines = {op.type: op.stack[0].line - first for b in program.blocks for op in b.ops}
    assert (lines["exp"], lines["reduce_sum"], lines["reduce_mean"]) == (1, 4, 6)


def test_tracebacks_show_the_original_lines() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x @ layers.ones([7, 2])
        return x

    with pytest.raises(opstep.Error) as caught:
        opstep.to_graph(f)(ROWS)
    own = [f for f in traceback.extract_tb(caught.value.__traceback__) if f.filename == __file__]
    assert own[-1].name == "f"
    assert own[-1].line == "return x @ layers.ones([7, 2])"


def test_python_s_own_debugger_goes_through_the_original_lines() -> None:
    seen: set[int] = set()

    def watch(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "halved":
            seen.add(frame.f_lineno)
        return watch

    converted = opstep.to_graph(halved)
    before = sys.gettrace()
    sys.settrace(watch)
    try:
        converted.program(X)
    finally:
        sys.settrace(before)
    assert {line(each) for each in ("while", "body", "if", "yes", "no")} <= seen


# --- programs ------------------------------------------------------------------------------------


def test_programs_are_kept_by_shape_dtype_and_other_arguments() -> None:
    built: list[int] = []

    @opstep.to_graph
    def f(x: Any, k: Any = 2) -> Any:
        built.append(1)
        return x * k

    for args in ((X,), (X + 1,), (X, 2), (X, 2)):
        f(*args)
    f(x=X)
    assert len(built) == 1
    for args in ((X[:2],), (X.astype(np.float64),), (X, 3), (X, 2.0), (X, 4)):
        f(*args)
        f(*args)
    assert len(built) == 6


def test_what_is_given_and_what_comes_back() -> None:
    @opstep.to_graph
    def f(pair: Any, options: Any) -> Any:
        return {"sum": pair[0] + pair[1], "rest": [options["y"] * 2, "word", None, 3]}

    arrays = f((X, X), {"y": X, "name": "n"})
    assert isinstance(arrays["sum"], np.ndarray) and arrays["rest"][1:] == ["word", None, 3]
    x = imperative.to_variable(X)
    values = f((x, x), {"y": X, "name": "n"})
    assert isinstance(values["sum"], imperative.Value)
    with imperative.guard():
        assert isinstance(f((X, X), {"y": X, "name": "n"})["sum"], imperative.Value)
    program = f.program((X, X), {"y": X})
    assert [v.name for v in program.feeds] == ["pair_0", "pair_1", "options_y"]
    assert [v.name for v in program.fetches] == ["sum", "rest_0"]


def test_a_program_for_sizes_that_are_not_known_yet(tmp_path: Path) -> None:
    converted = opstep.to_graph(halved)
    program = converted.program(opstep.Spec([None]), 0.5)
    assert "while" in op_types(program) and "float32[?]" in str(program)
    opstep.save_model(tmp_path / "model", program.feeds, program.fetches, program=program)
    loaded, feeds, fetches = opstep.load_model(tmp_path / "model", scope=opstep.Scope())
    assert (feeds, fetches) == (["x"], ["out"])
    for x in (X, np.arange(7, dtype=np.float32)):
        (got,) = loaded.run(feed={"x": x}, fetch_list=fetches)
        assert bits(got) == bits(line_by_line(halved, x, 0.5))


def test_called_with_variables_it_joins_their_program() -> None:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        x = layers.data("x", shape=[3])
        y = opstep.to_graph(halved)(x * 2) + 1
    (got,) = main.run(feed={"x": X}, fetch_list=[y])
    assert bits(got) == bits(line_by_line(lambda v: halved(v * 2) + 1, X))


def test_a_number_that_becomes_a_tensor_in_the_program_of_a_user() -> None:
    def f(x: Any) -> Any:
        total, turns = 0, 1
        while x.sum() < 100:
            total = total + layers.fc(x, 3, name="part")
            turns = turns / 2
            x = x * 2
        return total * turns

    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        before = layers.data("x", shape=[2, 3]) * 1.0
        y = opstep.to_graph(f)(before) + before
    assert [op.type for op in startup.global_block().ops] == ["uniform", "fill"]
    assert sum(len(block.ops) > 0 for block in main.blocks) == len(main.blocks) == 2
    scope = opstep.Scope()
    startup.run(scope=scope)
    x = np.ones((2, 3), np.float32)
    (got,) = main.run(feed={"x": x}, fetch_list=[y], scope=scope)
    weight, total, turns, now = scope.find("part.w"), 0.0, 1.0, x
    while now.sum() < 100:
        total, turns, now = total + now @ weight, turns / 2, now * 2
    np.testing.assert_allclose(got, total * np.float32(turns) + x, rtol=1e-5)


def test_decorated_with_a_guard() -> None:
    @imperative.guard()
    def f(x: Any) -> Any:
        return part(x) if x.sum() > 0 else x

    @imperative.no_grad()
    def part(x: Any) -> Any:
        return x * 2

    assert bits(opstep.to_graph(f)(X)) == bits(X * 2)


# --- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [X, -X, X * 100], ids=["plus", "minus", "large"])
def test_gradients_are_those_of_the_tape(x: np.ndarray) -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(6):
            if x.sum() > 50:
                break
            if x.max() > 5 and i > 0:
                x = x * 0.9
                continue
            x = layers.tanh(x) * x + 0.5
            total = total + x
        while x.sum() > 1:
            x = x * 0.25 - total * 0.1
        return layers.reduce_sum(x * x + total)

    with imperative.guard():
        leaf = imperative.to_variable(x, stop_gradient=False)
        f(leaf).backward()
        wanted = leaf.gradient
    program = opstep.to_graph(f).program(x)
    (feed,), (loss,) = program.feeds, program.fetches
    feed.stop_gradient = False
    with opstep.program_guard(program, program.startup):
        ((_, gradient),) = opstep.append_backward(loss, [feed])
    (got,) = program.run(feed={"x": x}, fetch_list=[gradient])
    assert wanted is not None
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)


def test_in_imperative_mode_the_tape_goes_through_it() -> None:
    net, twin = new_net(), new_net()
    results = []
    for each, function in ((net, opstep.to_graph(net)), (twin, twin)):
        with imperative.guard():
            imperative.seed(3)
            sgd = opstep.optimizer.SGD(0.1)
            for _ in range(3):
                loss = layers.mean(layers.square(function(imperative.to_variable(ROWS))))
                loss.backward()
                sgd.step(each.parameters())
        results.append([float(loss), *each.state_dict().values()])
    assert bits(results[0]) == bits(results[1])


# --- layers --------------------------------------------------------------------------------------


def test_a_layer_has_the_same_parameters_in_both_modes() -> None:
    net = new_net()
    converted = opstep.to_graph(net)
    got = [converted(ROWS) for _ in range(3)]  # dropout is another one each time
    twin = new_net()
    with imperative.no_grad():
        wanted = [line_by_line(twin, ROWS) for _ in range(3)]
    assert bits(got) == bits(wanted)
    assert not np.array_equal(got[0], got[1])
    for value in net.parameters():
        value.numpy()[:] *= 0.5
    twin.load_state_dict(net.state_dict())
    net.eval()
    twin.eval()
    with imperative.no_grad():
        assert bits(converted(ROWS)) == bits(line_by_line(twin, ROWS))


def test_a_compiled_training_step_changes_the_layer() -> None:
    net = new_net()
    net.eval()
    program = opstep.to_graph(net).program(opstep.Spec([None, 3]))
    with opstep.program_guard(program, program.startup):
        loss = layers.mean(layers.square(program.fetches[0]))
        opstep.optimizer.SGD(0.1).minimize(loss)
    program.startup.run()
    losses = [program.run(feed={"x": ROWS}, fetch_list=[loss])[0] for _ in range(5)]
    twin = new_net()
    twin.eval()
    with imperative.guard():
        sgd = opstep.optimizer.SGD(0.1)
        for value in losses:
            now = layers.mean(layers.square(twin(imperative.to_variable(ROWS))))
            assert bits(now.numpy()) == bits(value)
            now.backward()
            sgd.step(twin.parameters())
    assert losses[-1] < losses[0]
    assert bits(list(net.state_dict().values())) == bits(list(twin.state_dict().values()))


def test_two_layers_of_one_name_keep_their_own_parameters() -> None:
    imperative.seed(1)
    first, second = imperative.FC(3), imperative.FC(3)

    @opstep.to_graph
    def f(x: Any) -> Any:
        return second(first(first(x)))

    got = f(ROWS)
    with imperative.no_grad():
        wanted = line_by_line(lambda x: second(first(first(x))), ROWS)
    assert bits(got) == bits(wanted)


def test_a_sequence_of_layers_with_control_flow_of_their_own() -> None:
    class Clip(imperative.Layer):
        def forward(self, x: Any) -> Any:
            while x.max() > 0.5:
                x = x * 0.5
            return x

    model = imperative.Sequential(imperative.FC(4), Clip(), halved)
    got = opstep.to_graph(model)(ROWS)
    with imperative.no_grad():
        assert bits(got) == bits(line_by_line(model, ROWS))


def test_parameters_without_a_layer_are_kept_by_the_converted_function() -> None:
    @opstep.to_graph
    def f(x: Any) -> Any:
        return layers.fc(x, 2)

    first, again = f(ROWS), f(ROWS)
    assert bits(first) == bits(again)
    np.testing.assert_allclose(f(ROWS[:2]), first[:2], rtol=1e-6)


# --- the explicit forms --------------------------------------------------------------------------


def explicit(x: Any) -> Any:
    i, x = opstep.while_loop(lambda i, x: x.sum() < 100, lambda i, x: (i + 1, x * 2.0), (0, x))
    y = opstep.cond(x.max() > 150, lambda: (x, x * 2), lambda: (x * 3, x * 4))
    with opstep.while_(lambda k, v: v.sum() > 1, (0, y[1])) as loop:
        k, v = loop.vars
        loop.next(k + 1, v * 0.25)
    return i, y, loop.vars


@pytest.mark.parametrize("x", [X, X * 20], ids=["small", "large"])
def test_the_explicit_forms_mean_the_same_in_both_modes(x: np.ndarray) -> None:
    wanted = line_by_line(explicit, x)
    assert bits(opstep.to_graph(explicit)(x)) == bits(wanted)
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        i, y, loop = explicit(layers.data("x", shape=[3]))
    got = main.run(feed={"x": x}, fetch_list=[i, *y, *loop])
    flat = [wanted[0], *wanted[1], *wanted[2]]
    assert [np.asarray(v).tobytes() for v in got] == [np.asarray(v).tobytes() for v in flat]


def test_wrong_use_of_the_explicit_forms() -> None:
    with pytest.raises(opstep.Error, match="2 loop_vars but its body gives 1"):
        opstep.while_loop(lambda i, j: i < 3, lambda i, j: i, (0, 1))
    with imperative.guard():
        leaf = imperative.to_variable(X, stop_gradient=False)
        with pytest.raises(opstep.Error, match="no gradient flows through 'with while_'"):
            with opstep.while_(lambda v: v.sum() < 3, (leaf,)):
                pass
        with pytest.raises(opstep.Error, match="what its variables become"):
            with opstep.while_(lambda v: v.sum() < 3, (imperative.to_variable(X),)):
                pass
        with pytest.raises(opstep.Error, match=r"next\(\) got 2"):
            with opstep.while_(lambda v: v.sum() < 3, (imperative.to_variable(X),)) as loop:
                loop.next(1, 2)
        assert float(imperative.to_variable(X).sum() * 1.0) == 7.0  # still line by line
