"""The switch, runtime values, and what is said when they are used in a wrong way."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import opstep
from opstep import imperative, layers, ops
from opstep.imperative import Value, to_variable

HERE = Path(__file__).name
X = np.arange(6, dtype=np.float32).reshape(2, 3)


# --- the switch ---------------------------------------------------------------------------------


def test_the_switch_as_with_decorator_and_function() -> None:
    @imperative.guard()
    def double(x: np.ndarray) -> Value:
        return to_variable(x) * 2

    assert np.array_equal(double(X).numpy(), X * 2)
    assert not imperative.enabled()
    with imperative.guard():
        with imperative.guard():
            assert imperative.enabled()
        assert imperative.enabled()
    imperative.enable()
    try:
        assert np.array_equal((to_variable(X) + 1).numpy(), X + 1)
    finally:
        imperative.disable()
    with pytest.raises(ZeroDivisionError), imperative.guard():
        _ = 1 / 0
    assert not imperative.enabled()


def test_the_switch_is_the_thread_s_own() -> None:
    seen: list[bool] = []
    with imperative.guard():
        thread = threading.Thread(target=lambda: seen.append(imperative.enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_threads_run_the_same_ops_beside_each_other() -> None:
    results: dict[int, np.ndarray] = {}

    @imperative.guard()
    def work(number: int) -> None:
        x = to_variable(np.full(1000, number, np.float32), stop_gradient=False)
        for _ in range(50):
            loss = (x * x).sum()
            loss.backward()
        assert x.gradient is not None
        results[number] = x.gradient.numpy()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert (results[number] == 50 * 2 * number).all()


def test_a_program_is_built_in_the_midst_of_imperative_mode() -> None:
    main = opstep.Program()
    with imperative.guard():
        with opstep.program_guard(main, opstep.Program()):
            doubled = layers.data("x", shape=[2, 3]) * 2
        assert isinstance(to_variable(X) * 2, Value)
    assert isinstance(doubled, opstep.Variable)
    assert np.array_equal(main.run({"x": X}, [doubled])[0], X * 2)


# --- values -------------------------------------------------------------------------------------


def test_memory_is_shared_with_numpy() -> None:
    array = X.copy()
    value = to_variable(array)
    array[0, 0] = 7
    assert value.numpy()[0, 0] == 7
    assert np.shares_memory(value.numpy(), array)
    turned = to_variable(array.T)
    assert not np.shares_memory(turned.numpy(), array)
    assert np.array_equal(turned.numpy(), array.T)


def test_the_array_outlives_the_value_and_the_value_the_array() -> None:
    value = to_variable(np.full(10, 3.0))
    kept = value.numpy()
    del value
    assert (kept == 3).all()
    with imperative.guard():
        kept = (to_variable(np.full(10, 3.0)) * 2).numpy()
    assert (kept == 6).all()


def test_values_are_python_s_numbers_and_sequences() -> None:
    with imperative.guard():
        x = to_variable(X)
        assert (x.shape, x.dtype, len(x)) == ((2, 3), "float32", 2)
        assert float(x[1, 2]) == 5.0 and int(x[1, 2]) == 5 and x[0, 1].item() == 1
        assert bool(x[0, 1] > 0) and not bool(x[0, 0] > 0)
        assert [row.numpy().tolist() for row in x] == X.tolist()
        assert np.array_equal(x[:, ::-1].numpy(), X[:, ::-1])
        assert np.array_equal(np.asarray(x), X)
        index = to_variable(np.array(1))
        assert X.tolist()[index] == [3, 4, 5]
        assert f"{x[0, 1]:.2f}" == "1.00"


def test_values_print_like_numpy() -> None:
    value = to_variable(X)
    assert str(value) == str(X)
    assert repr(value) == "Value([[0., 1., 2.],\n       [3., 4., 5.]], dtype=float32)"


def test_all_operators_give_what_numpy_gives() -> None:
    a, b = X + 1, np.array([2, 3, 4], np.float32)
    with imperative.guard():
        x, y = to_variable(a), to_variable(b)
        pairs = [
            (x + y, a + b), (x - 1, a - 1), (2 - x, 2 - a), (x * y, a * b), (1 / x, 1 / a),
            (x // 2, a // 2), (x % 2, a % 2), (x**2, a**2), (-x, -a), (abs(-x), a),
            (x @ x.T, a @ a.T), (x < y, a < b), (x >= 3, a >= 3),
            ((x > 1) & (x < 5), (a > 1) & (a < 5)), (~(x > 1), ~(a > 1)),
            (x.sum(axis=1), a.sum(axis=1)), (x.max(), a.max()), (x.reshape(3, 2), a.reshape(3, 2)),
            (x.astype("int64"), a.astype("int64")), (x[None, 0], a[None, 0]),
        ]  # fmt: skip
    for got, expected in pairs:
        assert got.numpy().dtype == expected.dtype
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


def test_numbers_of_one_line_share_a_plan_and_keep_their_values() -> None:
    with imperative.guard():
        x = to_variable(X)
        for number in range(5):
            assert np.array_equal((x * number).numpy(), X * number)


def test_ops_without_inputs_and_with_several_outputs() -> None:
    with imperative.guard():
        assert (ops.fill(shape=[2], dtype="float32", value=3.0).numpy() == 3).all()
        first, second = layers.split(to_variable(X), 2, axis=0)
        assert np.array_equal(second.numpy(), X[1:])
        constants = [ops.constant(value=np.full(5000, n, np.float32)) for n in range(2)]
        assert [c.numpy()[0] for c in constants] == [0, 1]
        small = [ops.constant(value=np.full(5, n, np.float32)) for n in range(2)]
        assert [c.numpy()[0] for c in small] == [0, 1]
    assert first.shape == (1, 3)


def test_an_op_of_many_inputs_knows_which_are_the_same() -> None:
    """One line, many inputs: only which of them are one value differs."""
    with imperative.guard():
        values = [to_variable(np.array([n], np.float32)) for n in range(300)]
        for last in (values[0], values[256], values[299]):
            joined = layers.concat([*values, last], axis=0).numpy()
            assert joined[-1] == float(last)
            assert np.array_equal(joined[:-1], np.arange(300))


def test_an_op_may_write_into_a_value() -> None:
    with imperative.guard():
        count = to_variable(np.array(4, np.int64))
        ops.increment(count, out=count)
        assert int(count) == 5
        total = to_variable(np.zeros((2, 3), np.float32))
        assert ops.add(to_variable(X), 1.0, out=total) is total
        assert np.array_equal(total.numpy(), X + 1)


# --- errors -------------------------------------------------------------------------------------


def said(error: pytest.ExceptionInfo[opstep.Error]) -> str:
    text = str(error.value)
    assert f"({HERE}:" in text and "\n" not in text
    return text


def test_an_error_of_an_op_names_the_line() -> None:
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        to_variable(X) @ to_variable(X)
    assert said(error).startswith("[matmul] ")
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        ops.gather(to_variable(X), to_variable(np.array([5])), axis=0)
    assert said(error).startswith("[gather] ")
    with imperative.guard(), pytest.raises(opstep.Error, match="has no argument 'axs'"):
        ops.softmax(to_variable(X), axs=1)
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        ops.softmax(to_variable(X), axis="one")
    assert "axis must be of type int, not 'one'" in said(error)


def test_variables_and_values_do_not_mix() -> None:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        variable = layers.data("x", shape=[2, 3])
        with pytest.raises(opstep.Error) as error:
            _ = variable + to_variable(X)
        assert "a runtime value: use those inside opstep.imperative.guard() only" in said(error)
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        _ = to_variable(X) + variable
    assert "'x', a variable of a program, which has no value yet" in said(error)
    with pytest.raises(opstep.Error, match="is a variable of a program"):
        to_variable(variable)
    with pytest.raises(opstep.Error) as error:
        _ = to_variable(X) + 1
    assert "inside opstep.imperative.guard() only" in said(error)


def test_arrays_are_made_values_first() -> None:
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        _ = to_variable(X) + X
    assert "an array: make it a value with opstep.imperative.to_variable" in said(error)


def test_what_only_programs_have() -> None:
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        layers.data("x", shape=[2])
    assert "make a value of an array with opstep.imperative.to_variable" in said(error)
    assert not opstep.default_main_program().global_block().has_var("x")
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        ops.while_(to_variable(np.array(True)))
    assert "op of programs only: in imperative mode Python's own code does that" in said(error)


@pytest.mark.parametrize("kind", [layers.While, layers.IfElse, layers.Switch, layers.Recurrent])
def test_blocks_are_of_programs_only(kind: type) -> None:
    args = [to_variable(np.array(True))] if kind in (layers.While, layers.IfElse) else []
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        kind(*args)
    assert f"{kind.__name__} makes a block of a program: in imperative mode" in said(error)


def test_cond_calls_one_of_its_functions() -> None:
    with imperative.guard():
        x = to_variable(X)
        for limit, expected in ((0.0, X * 2), (100.0, X)):
            result = layers.cond(x.max() > limit, lambda: x * 2, lambda: x)
            assert np.array_equal(result.numpy(), expected)


def test_a_value_of_several_elements_is_no_number() -> None:
    with pytest.raises(opstep.Error, match=r"a value of shape \[2, 3\] is not one number"):
        float(to_variable(X))
    with pytest.raises(opstep.Error, match="cannot meet"), imperative.guard():
        _ = to_variable(np.array([1, 2])) + 0.5


def test_a_layer_function_alone_would_forget_its_parameters() -> None:
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        layers.fc(to_variable(X), 4)
    assert "'fc.w' would be made again at each call" in said(error)
