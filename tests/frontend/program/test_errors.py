"""Mistakes: each gets one sentence that says what, where and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opstep
from opstep import layers, ops
from opstep_server.wire import program_pb2

HERE = r"\(test_errors\.py:\d+\)"


def sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def model(world) -> opstep.Variable:
    x = layers.data("x", [None, 4])
    return layers.fc(x, size=2)


# --- while building -----------------------------------------------------------------------------


def test_a_wrong_shape_is_an_error_on_that_line(world) -> None:
    x = layers.data("x", [None, 4])
    w = layers.data("w", [5, 2])
    with pytest.raises(opstep.Error) as error:
        layers.matmul(x, w)  # here
    lines = Path(__file__).read_text().splitlines()
    number = next(i for i, text in enumerate(lines, 1) if text.endswith("# here"))
    assert sentence(error) == (
        "[matmul] X is [?, 4] but Y is [5, 2]: inner sizes 4 and 5 differ "
        f"(test_errors.py:{number})"
    )
    # The traceback leads to that line too, and the program is as it was.
    assert number in [entry.lineno + 1 for entry in error.traceback]
    assert [op.name for op in world.main.global_block().ops] == ["x.feed", "w.feed"]


def test_a_wrong_shape_inside_a_layer_names_the_users_line(world) -> None:
    with pytest.raises(opstep.Error, match=rf"\[fc\] 'x' has the shape \[4\]: .* {HERE}"):
        layers.fc(layers.data("x", [4]), size=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda x: ops.softmax(x, axes=1),
            r"\[softmax\] has no argument 'axes'; did you mean 'axis'\?",
        ),
        (lambda x: ops.softmax(x, axis="one"), r"\[softmax\] axis must be of type \w+, not 'one'"),
        (lambda x: ops.relu(), r"\[relu\] .*X"),
        (lambda x: ops.relu(x, x), r"\[relu\] takes the inputs X, but 2 were given"),
        (lambda x: ops.relu(x, X=x), r"\[relu\] got the input 'X' twice"),
        (
            lambda x: ops.relu("nothing"),
            r"\[relu\] X is 'nothing', which is not a variable of this program",
        ),
        (lambda x: ops.relu(3), r"\[relu\] X must be a variable, not a int"),
        (lambda x: x + np.ones(4), r"\[add\] Y must be a variable, not an array; feed it"),
        (
            lambda x: layers.cast(x, "int64") * 0.5,
            r"\[mul\] Y is 0\.5, which .* cast it to float32 first",
        ),
        (lambda x: ops.logical_not(x), r"\[logical_not\] X \('x'\) is float32; it takes bool"),
        (
            lambda x: layers.fc(np.ones((2, 4)), 3),
            r"\[fc\] takes a variable of the program, not ndarray: feed it by layers\.data",
        ),
        (lambda x: layers.fc(x, 3, act="rleu"), r"\[fc\] act='rleu': .* did you mean 'relu'\?"),
        (
            lambda x: layers.relu(x, name="x.feed"),
            r"\[relu\] there is already an op named 'x\.feed'",
        ),
    ],
)
def test_a_wrong_call(world, make, message: str) -> None:
    x = layers.data("x", [None, 4])
    with pytest.raises(opstep.Error) as error:
        make(x)
    assert re.search(message + rf".*{HERE}$", sentence(error)), sentence(error)


def test_an_unknown_op_type(world) -> None:
    with pytest.raises(opstep.Error, match="no op type 'rleu'; did you mean 'relu'"):
        world.main.global_block().append_operator("rleu")


def test_an_unknown_dtype(world) -> None:
    with pytest.raises(opstep.Error, match="no dtype 'float23'; did you mean 'float32'"):
        layers.data("x", [1], dtype="float23")


def test_a_wrong_shape_for_data(world) -> None:
    with pytest.raises(opstep.Error, match=r"'wide' is not a shape; write a list of sizes"):
        layers.data("x", "wide")


def test_data_twice_with_another_shape(world) -> None:
    x = layers.data("x", [None, 4])
    assert layers.data("x", [None, 4]) is x
    with pytest.raises(opstep.Error, match="there is already a variable 'x'"):
        layers.data("x", [None, 5])


def test_variables_of_two_programs(world) -> None:
    x = layers.data("x", [1])
    with opstep.program_guard(opstep.Program("other")):
        y = layers.data("y", [1])
    with pytest.raises(opstep.Error, match=r"\[add\] 'y' belongs to program 'other', .* 'main'"):
        _ = x + y


def test_a_loss_of_many_numbers(world) -> None:
    with pytest.raises(opstep.Error, match=r"a loss must be one float.*take its mean or sum first"):
        opstep.optimizer.SGD(0.1).minimize(model(world))


def test_a_loop_without_an_end(world) -> None:
    loop = layers.While(layers.fill([1], 1, "bool"))
    endless = pytest.raises(opstep.Error, match=r"never end: .* does not write 'fill_0\.out'")
    with endless, loop.block():
        layers.fill([1], 2.0)
    assert world.main.current_block() is world.main.global_block()


# --- feeds and fetches --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (
            {"xx": np.ones((1, 4), np.float32)},
            r"cannot feed 'xx': program 'main' has no such variable; did you mean 'x'\?",
        ),
        (
            {"x": np.ones((1, 4))},
            r"cannot feed 'x': it is float32 but the value is float64; use \.astype\('float32'\) "
            r"\(declared in test_errors\.py:\d+\)",
        ),
        (
            {"x": np.ones((1, 5), np.float32)},
            r"cannot feed 'x': its shape is \[\?, 4\] but the value's is \[1, 5\] "
            r"\(declared in test_errors\.py:\d+\)",
        ),
        ({"x": np.ones(4, np.float32)}, r"its shape is \[\?, 4\] but the value's is \[4\]"),
        (
            {"x": [["a", "b", "c", "d"]]},
            r"cannot feed 'x': it is float32, but the list has values of <U1",
        ),
        ({"x": [[1, 2, 3], [4]]}, r"cannot feed 'x': the rows of the list differ in length"),
        (
            {"x": np.array([[1j, 2, 3, 4]])},
            r"x is an array of dtype complex128, which opstep does not know",
        ),
        ({"x": np.ones((1, 4), ">f4")}, r"x is an array of dtype >f4, which opstep does not know"),
        (
            {"fc_0.out": np.ones((1, 2), np.float32)},
            r"cannot feed 'fc_0\.out': the program computes it itself",
        ),
        ({}, r"\[feed\] 'x' must be fed: it is float32\[\?, 4\]"),
    ],
)
def test_a_wrong_feed(world, feed, message: str) -> None:
    y = model(world)
    world.exe.run(world.startup)
    with pytest.raises(opstep.Error) as error:
        world.exe.run(world.main, feed=feed, fetch_list=[y])
    assert re.search(message, sentence(error)), sentence(error)
    # Executor and scope can still be used.
    assert world.exe.run(world.main, feed={"x": [[1, 2, 3, 4]]}, fetch_list=[y])[0].shape == (1, 2)


def test_lists_of_floats_are_not_cut_to_integers(world) -> None:
    n = layers.data("n", [None], "int64")
    with pytest.raises(opstep.Error, match="'n': it is int64, but the list has values of float64"):
        world.exe.run(world.main, feed={"n": [1.5]}, fetch_list=[n])


def test_an_unknown_fetch(world) -> None:
    model(world)
    world.exe.run(world.startup)
    with pytest.raises(
        opstep.Error, match=r"cannot fetch 'fc_0\.oot': .* did you mean 'fc_0\.out'\?"
    ):
        world.exe.run(world.main, feed={"x": [[1, 2, 3, 4]]}, fetch_list=["fc_0.oot"])


def test_an_uninitialised_variable(world) -> None:
    y = model(world)
    with pytest.raises(opstep.Error) as error:
        world.exe.run(world.main, feed={"x": [[1, 2, 3, 4]]}, fetch_list=[y])
    assert re.search(r"'fc_0\.[wb]'.* run the startup program first", sentence(error))


def test_a_name_that_the_scope_does_not_have(world) -> None:
    model(world)
    with pytest.raises(opstep.Error, match=r"no variable 'fc_0\.w'; run the startup program first"):
        world.scope.find("fc_0.w")
    world.exe.run(world.startup)
    with pytest.raises(opstep.Error, match=r"no variable 'fc0\.w'; did you mean 'fc_0\.w'"):
        world.scope.find("fc0.w")


def test_compile_checks_names_at_once(world) -> None:
    y = model(world)
    with pytest.raises(opstep.Error, match="cannot feed 'z'"):
        opstep.compile(world.main, feeds=["z"], fetches=[y])
    with pytest.raises(opstep.Error, match=r"cannot fetch 'fc_0\.outt'.*did you mean 'fc_0\.out'"):
        opstep.compile(world.main, feeds=["x"], fetches=["fc_0.outt"])
    step = opstep.compile(world.main, feeds=["x"], fetches=[y])
    with pytest.raises(opstep.Error, match="compiled to be fed 'x' too"):
        step()
    with pytest.raises(opstep.Error, match="not compiled to be fed 'y'"):
        step(x=[[1, 2, 3, 4]], y=3)


# --- files --------------------------------------------------------------------------------------


def test_a_missing_program_file(tmp_path: Path) -> None:
    with pytest.raises(opstep.Error, match=r"cannot read '.*/no\.opstep': No such"):
        opstep.Program.load(tmp_path / "no.opstep")


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_a_corrupt_program_file(world, tmp_path: Path, damage: str) -> None:
    model(world)
    whole = world.main.to_bytes()
    data = {"cut": whole[: len(whole) // 2], "noise": b"\xff" * 100, "empty": b""}[damage]
    path = tmp_path / "broken.opstep"
    path.write_bytes(data)
    with pytest.raises(opstep.Error) as error:
        opstep.Program.load(path)
    assert re.match(r"cannot load the program file '.*/broken\.opstep': \w+", sentence(error))


def test_a_loop_that_hides_what_its_body_writes(world) -> None:
    x = layers.data("x", [1])
    total = layers.fill([1], 0.0)
    going = layers.less_than(total, x)
    with layers.While(going).block():
        layers.increment(total)
        layers.less_than(total, x, out=going)
    desc = program_pb2.ProgramDesc.FromString(world.main.to_bytes())
    for slot in desc.blocks[0].ops[-1].outputs:
        slot.vars.remove(total.name)
    with pytest.raises(opstep.Error) as error:
        opstep.Program.from_bytes(desc.SerializeToString())
    assert f"block 1 writes '{total.name}', which is not among its outputs" in sentence(error)


def test_a_program_file_with_any_byte_changed_never_crashes(world) -> None:
    model(world)
    whole = world.main.to_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(500):
        data = bytearray(whole)
        data[rng.integers(len(data))] = rng.integers(256)
        try:
            str(opstep.Program.from_bytes(bytes(data)))
        except opstep.Error as error:
            refused += 1
            assert str(error)
    assert refused > 50


# --- debug --------------------------------------------------------------------------------------


def test_wrong_arguments_of_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPSTEP_SERVER", raising=False)
    with pytest.raises(opstep.Error, match="give an address or set OPSTEP_SERVER"):
        opstep.debug.connect()
    with pytest.raises(opstep.Error, match="'continue' or 'wait', not 'panic'"):
        opstep.debug.connect("unix:/nowhere", on_disconnect="panic")
    assert not opstep.debug.attached()


def test_running_an_empty_default_program(world) -> None:
    main = opstep.Program("mine")
    with opstep.program_guard(main):
        x = layers.data("x", [None, 4])
    with pytest.raises(opstep.Error) as error:
        opstep.Executor().run(feed={"x": np.zeros((1, 4), np.float32)}, fetch_list=[x])
    assert "name the one to run, as in exe.run(main, feed=...)" in sentence(error)


def test_a_variable_of_another_program_than_the_guards(world) -> None:
    x = layers.data("x", [3])
    other = opstep.Program("other")
    with (
        opstep.program_guard(other, opstep.Program()),
        pytest.raises(opstep.Error, match="belongs to program 'main', but layers are added to 'o"),
    ):
        layers.relu(x)
    assert not other.global_block().ops
