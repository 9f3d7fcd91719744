"""Building programs: blocks, variables, names, operators, the listing, save and load."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import opstep
from opstep import layers, ops


def line() -> int:
    """The caller's line number."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_blocks_form_a_tree(world) -> None:
    main = world.main
    assert main.current_block() is main.global_block() is main.blocks[0]
    inner = main.create_block()
    assert main.current_block() is inner and inner.parent is main.global_block()
    innermost = main.create_block()
    assert innermost.parent is inner
    main.rollback()
    main.rollback()
    assert main.current_block() is main.global_block()
    with pytest.raises(opstep.Error, match="block 0 has no block around it"):
        main.rollback()


def test_a_second_create_var_gives_the_same_variable(world) -> None:
    block = world.main.global_block()
    first = block.create_var("v", [None, 3], "float64")
    assert block.create_var("v", [7], "int64") is first
    assert first.shape == (None, 3) and first.dtype == "float64"
    assert block.var("v") is first


def test_a_parameter_lives_in_block_0_and_is_filled_by_the_startup_program(world) -> None:
    inner = world.main.create_block()
    w = inner.create_parameter("w", [2, 3], initializer=opstep.initializer.Constant(4.0))
    world.main.rollback()
    assert isinstance(w, opstep.Parameter) and w.trainable and w.persistable
    assert w.block is world.main.global_block()
    (init,) = world.startup.global_block().ops
    assert init.name == "w.init" and init.outputs == {"out": ["w"]}
    world.exe.run(world.startup)
    assert np.array_equal(world.scope.find("w"), np.full((2, 3), 4, np.float32))


def test_names_of_a_layer(world) -> None:
    out = layers.fc(layers.data("x", [None, 4]), size=3, act="relu")
    plain = layers.fc(out, size=2, bias=False)
    names = [op.name for op in world.main.global_block().ops]
    assert names == ["x.feed", "fc_0.matmul", "fc_0.add", "fc_0.relu", "fc_1.matmul"]
    assert out.name == "fc_0.out" and plain.name == "fc_1.out"
    assert [p.name for p in world.main.parameters()] == ["fc_0.w", "fc_0.b", "fc_1.w"]
    assert "fc_0.matmul.out" in world.main.global_block().vars
    inits = [op.name for op in world.startup.global_block().ops]
    assert inits == ["fc_0.w.init", "fc_0.b.init", "fc_1.w.init"]
    assert layers.relu(out).name == "relu_0.out"


def test_name_scopes(world) -> None:
    x = layers.data("x", [None, 4])
    with opstep.name_scope("encoder"):
        first = layers.fc(x, size=3)
        with opstep.name_scope("inner"):
            second = layers.relu(first)
            third = layers.fc(second, size=3, name="last")
    assert first.name == "encoder/fc_0.out"
    assert second.name == "encoder/inner/relu_0.out"
    assert third.name == "encoder/inner/last.out"
    assert layers.fc(x, size=3).name == "fc_0.out"


def test_append_and_prepend_operator(world) -> None:
    block = world.main.global_block()
    x = layers.data("x", [2])
    last = block.append_operator("relu", {"X": x}, {"out": "y"}, name="second")
    first = block.prepend_operator("fill", {}, {"out": "z"}, {"shape": [2], "value": 3})
    assert [op.name for op in block.ops] == ["fill_0", "x.feed", "second"]
    assert block.var("y").shape == (2,) and block.var("y").writer == last
    assert first.attrs == {"shape": [2], "value": 3.0, "dtype": "float32"}
    y, z = world.exe.run(world.main, feed={"x": [-1, 5]}, fetch_list=["y", "z"])
    assert y.tolist() == [0, 5] and z.tolist() == [3, 3]


def test_shapes_are_inferred_at_once(world) -> None:
    x = layers.data("x", [None, 4, 5])
    assert layers.transpose(x, [2, 0, 1]).shape == (5, None, 4)
    assert layers.reduce_sum(x, axes=1, keepdims=True).shape == (None, 1, 5)
    assert layers.mean(x).shape == ()
    assert layers.fc(x, size=7).shape == (None, 7)
    assert layers.cast(x, np.float64).dtype == "float64"


def test_operators_with_numbers_on_either_side(world) -> None:
    a = layers.data("a", [3])
    b = layers.data("b", [3])
    expressions = {
        "a + b": a + b, "a - 1": a - 1, "2 - a": 2 - a, "a * b": a * b, "2 * a": 2 * a,
        "a / b": a / b, "1 / a": 1 / a, "a ** 2": a**2, "2 ** a": 2**a, "-a": -a, "a < b": a < b,
        "a <= 2": a <= 2, "a > 2": a > 2, "3 >= a": 3 >= a, "a + 0.5": a + 0.5,  # noqa: SIM300
    }  # fmt: skip
    feed = {"a": np.array([1, 2, 4], np.float32), "b": np.array([3, 2, 1], np.float32)}
    values = world.exe.run(world.main, feed=feed, fetch_list=list(expressions.values()))
    for (text, _), value in zip(expressions.items(), values, strict=True):
        expected = eval(text, dict(feed))
        assert value.dtype == expected.dtype, text
        np.testing.assert_allclose(value, expected, rtol=1e-6, err_msg=text)


def test_matmul_operator(world) -> None:
    x = layers.data("x", [2, 3])
    y = layers.data("y", [3, 2])
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.ones((3, 2), np.float32)}
    (value,) = world.exe.run(world.main, feed=feed, fetch_list=[x @ y])
    assert np.array_equal(value, feed["x"] @ feed["y"])


def test_variables_are_compared_by_identity(world) -> None:
    a, b = layers.data("a", [1]), layers.data("b", [1])
    assert (a == a) is True and (a == b) is False and (a != b) is True
    assert a in [b, a] and len({a, b, a}) == 2
    with pytest.raises(opstep.Error, match=r"'less_0.out' has no value .* use opstep\.cond"):
        bool(a < b)


def test_every_op_knows_the_users_lines(world) -> None:
    x = layers.data("x", [None, 4])

    def model(inside):
        return layers.fc(inside, size=2), line()

    out, inner = model(x); outer = line()  # fmt: skip  # noqa: E702
    stack = out.writer.stack
    assert (stack[0].file, stack[0].line) == (__file__, inner)
    assert stack[0].function.endswith("model")
    assert (stack[1].file, stack[1].line) == (__file__, outer)
    package = str(Path(opstep.__file__).parent)
    assert not any(frame.file.startswith((package, "<frozen")) for frame in stack)
    # The initializer in the startup program was made on the same line.
    assert world.startup.global_block().ops[0].stack[0] == stack[0]


def test_gradient_ops_carry_the_line_of_their_forward_op(world) -> None:
    x = layers.data("x", [None, 4])
    loss = layers.mean(layers.fc(x, size=2)); made = line()  # fmt: skip  # noqa: E702
    pairs = opstep.append_backward(loss)
    assert [(p.name, g.name) for p, g in pairs] == [
        ("fc_0.w", "fc_0.w@grad"),
        ("fc_0.b", "fc_0.b@grad"),
    ]
    gradients = [op for op in world.main.global_block().ops if op.forward_op is not None]
    assert len(gradients) >= 3
    # The first is the gradient of the loss itself, which no line but this one made.
    assert gradients[0].name == "mean_0.grad_seed" and gradients[0].stack[0].line == made + 1
    for op in gradients[1:]:
        assert op.stack == op.forward_op.stack and op.stack[0].line == made


def test_a_while_loop_is_made_on_the_line_of_its_with(world) -> None:
    i = layers.fill([1], 0, "int64")
    going = layers.less_than(i, 3)
    loop = layers.While(going)
    with loop.block(): made = line(); layers.increment(i); layers.less_than(i, 3, out=going)  # noqa: E701, E702  # fmt: skip
    op = world.main.global_block().ops[-1]
    assert op.name == "while_0" and op.stack[0].line == made and op.stack[0].file == __file__
    assert op.inputs["condition"] == [going.name]
    assert set(op.outputs["out"]) == {i.name, going.name}


def test_the_listing(world) -> None:
    x = layers.data("x", [None, 4])
    y = layers.fc(x, size=2, act="relu")
    going = layers.fill([1], 0, "bool")
    loop = layers.While(going)
    with loop.block():
        layers.assign(going, out=going)
    layers.mean(y)
    text = re.sub(r", test_program\.py:\d+", ", <line>", str(world.main))
    golden = Path(__file__).with_name("listing.txt")
    assert text == golden.read_text()


def test_save_and_load(world, tmp_path: Path) -> None:
    x = layers.data("x", [None, 4])
    y = layers.fc(x, size=2, act="tanh")
    world.exe.run(world.startup)
    feed = {"x": np.random.default_rng(0).random((3, 4), np.float32)}
    (before,) = world.exe.run(world.main, feed=feed, fetch_list=[y])

    path = tmp_path / "model.opstep"
    world.main.save(path)
    loaded = opstep.Program.load(path)
    assert str(loaded) == str(world.main)
    assert loaded.to_bytes() == world.main.to_bytes()
    (after,) = world.exe.run(loaded, feed=feed, fetch_list=["fc_0.out"])
    assert np.array_equal(before, after)
    # It can be built on, without meeting names that are there.
    with opstep.program_guard(loaded, world.startup):
        assert layers.fc(loaded.global_block().var("fc_0.out"), size=3).name == "fc_1.out"


def test_two_threads_build_two_programs() -> None:
    programs = [opstep.Program(f"p{i}") for i in range(2)]
    barrier = threading.Barrier(2)

    def build(program: opstep.Program) -> None:
        with opstep.program_guard(program, opstep.Program()):
            x = layers.data("x", [None, 2])
            for _ in range(50):
                barrier.wait()
                x = layers.fc(x, size=2)

    threads = [threading.Thread(target=build, args=(p,)) for p in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(p.global_block().ops) for p in programs] == [101, 101]


def test_the_ops_module_is_made_from_the_registry() -> None:
    assert set(dir(ops)) >= {"matmul", "while_", "softmax"}
    assert "Matrix product" in ops.matmul.__doc__ and "X: " in ops.matmul.__doc__
    assert list(inspect.signature(ops.matmul).parameters) == ["X", "Y", "out", "name"]
    with pytest.raises(AttributeError, match="no op 'mathmul'; did you mean 'matmul'"):
        _ = ops.mathmul


def test_ops_take_slots_by_name_and_write_where_they_are_told(world) -> None:
    x = layers.data("x", [2, 2])
    y = ops.matmul(Y=x, X=x, out="product", name="square")
    assert y.name == "product" and y.writer.name == "square"
    loss, probabilities = ops.softmax_with_cross_entropy(x, layers.data("l", [2, 1], "int64"))
    assert loss.shape == (2, 1) and probabilities.shape == (2, 2)


def test_the_version_is_the_packages() -> None:
    assert opstep.__version__ == importlib.metadata.version("opstep")
