"""Loops over readers where something is unusual, wrong or hostile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import layers, ops, readers, records
from opstep.readers.feeders import of_reader
from opstep.readers.pipelines import Pipeline
from opstep.readers.reader_loop import ReaderLoop
from opstep.variable import Variable
from opstep_server.wire import program_pb2 as pb


@pytest.fixture
def six(tmp_path: Path) -> Pipeline:
    """Records 0, 1 … 5, one number each."""
    with records.Writer(tmp_path / "six.rec", {"x": ("float32", [1])}) as writer:
        writer.write_batch(x=np.arange(6, dtype=np.float32).reshape(6, 1))
    return readers.records(tmp_path / "six.rec")


class Built:
    """A program with one loop, whose body gives what is fetched."""

    def __init__(
        self,
        reader: Pipeline | readers.Reader,
        body: Callable[..., Variable | list[Variable] | None],
        **options: Any,
    ) -> None:
        self.main, self.startup = opstep.Program(), opstep.Program()
        loop = reader.iterate(**options)
        with opstep.program_guard(self.main, self.startup), loop as values:
            made = body(loop, *values)
        self.fetched = made if isinstance(made, list) else [] if made is None else [made]
        self.executor, self.scope = opstep.Executor(), opstep.Scope()
        self.executor.run(self.startup, scope=self.scope)

    def run(self, program: opstep.Program | None = None) -> list[list[float]]:
        names = [variable.name for variable in self.fetched]
        values = self.executor.run(program or self.main, fetch_list=names, scope=self.scope)
        return [value.ravel().tolist() for value in values]

    def edited(self, edit: Callable[[pb.ProgramDesc], None]) -> opstep.Program:
        desc = pb.ProgramDesc.FromString(self.main.to_bytes())
        edit(desc)
        return opstep.Program.from_bytes(desc.SerializeToString())


def mean(loop: ReaderLoop, x: Variable) -> Variable:
    return loop.fetch(layers.mean(x))


# --- what users do --------------------------------------------------------------------------------


def test_what_is_handed_cannot_be_written(six: Pipeline) -> None:
    def body(loop: ReaderLoop, x: Variable) -> Variable:
        ops.assign(x * 10.0, out=x)
        return loop.fetch(x)

    with pytest.raises(opstep.Error, match=r"'reader_loop_0.x' is handed to the block"):
        Built(six.repeat(2), body).run()


def test_two_evaluations_of_one_loop(six: Pipeline) -> None:
    def body(loop: ReaderLoop, x: Variable) -> list[Variable]:
        value = layers.mean(
            layers.fc(x, 1, weight_init=opstep.initializer.Constant(2.0), bias=False)
        )
        with loop.every(2):
            one = loop.fetch(loop.evaluate(six.batch(4), value), name="one")
        two = loop.fetch(loop.evaluate(six.batch(5), [value, value])[1], name="two")
        return [one, two]

    one, two = Built(six.batch(2), body).run()
    assert one == [5.0] and two == [5.0, 5.0, 5.0]


def test_what_is_evaluated_may_depend_on_the_iteration(six: Pipeline) -> None:
    def body(loop: ReaderLoop, x: Variable) -> Variable:
        value = layers.mean(x) + layers.cast(loop.step, "float32")
        return loop.fetch(loop.evaluate(six.batch(3), value), name="value")

    assert Built(six.batch(3), body).run() == [[2.5, 3.5]]


def test_single_records_count_equally(tmp_path: Path) -> None:
    with records.Writer(tmp_path / "r.rec", {"x": ("float32", [None])}) as writer:
        writer.write(x=[10.0])
        writer.write(x=[0.0] * 9)
    reader = readers.records(tmp_path / "r.rec")

    def body(loop: ReaderLoop, x: Variable) -> Variable:
        return loop.fetch(loop.evaluate(reader, layers.mean(x)), name="value")

    assert Built(reader, body).run() == [[5.0, 5.0]]


def test_a_test_does_not_move_where_training_is() -> None:
    failing = [True]

    def make() -> Iterator[dict[str, np.ndarray]]:
        for i in range(5):
            if i == 3 and failing[0]:
                raise ValueError("disk")
            yield {"x": np.full((2, 1), i, np.float32)}

    def body(loop: ReaderLoop, x: Variable) -> Variable:
        loss = layers.mean(layers.fc(x, 1))
        opstep.optimizer.SGD(0.01).minimize(loss)
        return mean(loop, x)

    built = Built(readers.from_generator(make), body)
    with pytest.raises(opstep.Error, match="disk"):
        built.run()
    failing[0] = False
    assert built.run(built.main.clone(for_test=True)) == [[0, 1, 2, 3, 4]]
    assert built.run() == [[3, 4]]
    assert built.run() == [[0, 1, 2, 3, 4]]


def test_steps_are_made_again_where_they_failed() -> None:
    failing = [True]

    def make(number: int) -> dict[str, np.ndarray]:
        if number == 4 and failing[0]:
            failing[0] = False
            raise ValueError("net")
        return {"x": np.full((2, 1), number, np.float32)}

    built = Built(readers.from_steps(make), mean, steps=8)
    with pytest.raises(opstep.Error, match="net"):
        built.run()
    assert built.run() == [[4, 5, 6, 7]]
    assert built.run() == [list(range(8))]


def test_live_data_are_had_once() -> None:
    def make() -> Iterator[dict[str, np.ndarray]]:
        for i in range(7):
            yield {"x": np.full((2, 1), i, np.float32)}

    built = Built(readers.from_generator(make, endless=True), mean, steps=3)
    assert built.run() == [[0, 1, 2]]
    assert built.run() == [[3, 4, 5]]
    with pytest.raises(opstep.Error, match="said to be endless, but its data ended"):
        built.run()


def test_one_reader_trains_and_evaluates() -> None:
    data = {"x": np.arange(6, dtype=np.float32).reshape(6, 1)}
    reader = of_reader(readers.from_arrays(data, batch=2))

    def body(loop: ReaderLoop, x: Variable) -> list[Variable]:
        value = layers.mean(x)
        return [loop.fetch(value), loop.fetch(loop.evaluate(reader, value), name="all")]

    assert Built(reader, body).run() == [[0.5, 2.5, 4.5], [2.5, 2.5, 2.5]]


def test_a_reader_is_read_from_once(six: Pipeline) -> None:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        reader = six.variable()
        ops.prefetch_reader(reader)
        ops.prefetch_reader(reader)
    with pytest.raises(opstep.Error, match="another reader was made of the reader already"):
        opstep.Executor().run(main)


def test_a_huge_batch_takes_what_there_is(six: Pipeline) -> None:
    assert Built(six.batch(10**12), mean).run() == [[2.5]]


def test_a_keyboard_interrupt_of_the_readers_code() -> None:
    def make() -> Iterator[dict[str, np.ndarray]]:
        yield {"x": np.ones((2, 1), np.float32)}
        raise KeyboardInterrupt

    # On the thread that reads ahead it is an error like others; else it is the user's Ctrl-C.
    with pytest.raises(opstep.Error, match="the reader's code raised KeyboardInterrupt"):
        Built(readers.from_generator(make), mean).run()
    with pytest.raises(KeyboardInterrupt):
        Built(readers.from_generator(make), mean, prefetch=0).run()


def test_records_of_another_rank_are_refused() -> None:
    def make() -> Iterator[dict[str, np.ndarray]]:
        yield {"x": np.ones(2, np.float32)}
        yield {"x": np.float32(3)}

    with pytest.raises(opstep.Error, match=r"field 'x' is float32\[\?\] but a record has float32"):
        list(of_reader(readers.from_generator(make)).batch(2))


def test_a_program_grows_while_it_runs() -> None:
    def make() -> Iterator[dict[str, np.ndarray]]:
        for size in range(1, 600):
            yield {"x": np.ones((size, 1), np.float32)}

    def body(loop: ReaderLoop, x: Variable) -> Variable:
        for _ in range(20):
            x = x * ops.fill(shape=[1], dtype="float32", value=1.0)
        return mean(loop, x)

    built = Built(readers.from_generator(make), body)
    step = opstep.compile(built.main, fetches=built.fetched, scope=built.scope)
    step()  # it is compiled; the blocks' variants for other sizes are not kept that long
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(step()))
    thread.start()
    with opstep.program_guard(built.main, built.startup):
        while thread.is_alive():
            ops.fill(shape=[1], dtype="float32", value=1.0)
    thread.join()
    assert results[0].shape == (599,)


# --- what files may hold -------------------------------------------------------------------------


def test_a_persistable_variable_of_a_body_keeps_its_size(six: Pipeline) -> None:
    def body(loop: ReaderLoop, x: Variable) -> Variable:
        return ops.add(ops.fill(shape=[100_000], dtype="float32", value=1.0), x)

    built = Built(six, lambda loop, x: (body(loop, x), None)[1])

    def edit(desc: pb.ProgramDesc) -> None:
        (var,) = (v for v in desc.blocks[1].vars if v.name == "add_0.out")
        var.persistable = True
        var.dims[:] = [2]

    with pytest.raises(opstep.Error, match=r"'add_0.out' from float32\[2\] to float32\[100000\]"):
        built.run(built.edited(edit))


def loop_of(desc: pb.ProgramDesc) -> pb.OpDesc:
    return next(op for op in desc.blocks[0].ops if op.type == "reader_loop")


def test_a_counter_has_one_element(six: Pipeline) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        empty = ops.fill(shape=[0], dtype="int64", value=0)
        with six.iterate() as (x,):
            layers.mean(x)
    desc = pb.ProgramDesc.FromString(main.to_bytes())
    loop = loop_of(desc)
    next(slot for slot in loop.inputs if slot.name == "step").vars[:] = [empty.name]
    loop.outputs.remove(next(slot for slot in loop.outputs if slot.name == "step_out"))
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    with pytest.raises(opstep.Error, match=r"step is .*: it must have one element"):
        exe.run(opstep.Program.from_bytes(desc.SerializeToString()), scope=scope)


def test_an_impossible_count_is_refused(six: Pipeline) -> None:
    built = Built(six, mean)
    built.scope.set("reader_loop_0.step", np.int64(-1))
    with pytest.raises(opstep.Error, match="step is -1"):
        built.run()
    built.scope.set("reader_loop_0.step", np.int64(2**62))
    assert built.run() == [[]]


def test_a_stop_of_no_element_is_refused(six: Pipeline) -> None:
    def body(loop: ReaderLoop, x: Variable) -> Variable:
        loop.stop_when(layers.less_than(layers.mean(x), -1.0))
        layers.less_than(x[:0], 0.0, name="nothing")
        return mean(loop, x)

    built = Built(six.batch(2), body)

    def edit(desc: pb.ProgramDesc) -> None:
        (name,) = (v.name for v in desc.blocks[1].vars if v.name.startswith("nothing"))
        next(slot for slot in loop_of(desc).inputs if slot.name == "stop").vars[:] = [name]

    with pytest.raises(opstep.Error, match=r"stop is .*: it must have one element"):
        built.run(built.edited(edit))


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_checkpoint_of_a_loop_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    fails_at = [8]

    def make(number: int) -> dict[str, np.ndarray]:
        if number == fails_at[0]:
            raise ValueError("power")
        rng = np.random.default_rng(number)
        return {"x": rng.normal(size=(4, 3)).astype(np.float32)}

    def body(loop: ReaderLoop, x: Variable) -> None:
        hidden = layers.dropout(layers.fc(x, 5, act="tanh"), 0.4)
        opstep.optimizer.Adam(0.05).minimize(layers.mean(layers.fc(hidden, 1)))
        opstep.checkpoint(tmp_path / "at.safetensors", every=3)

    built = Built(readers.from_steps(make), body, steps=20)
    with pytest.raises(opstep.Error, match="power"):
        built.run()
    fails_at[0] = -1
    # Another process would begin like this: behind iteration 6, the last that was kept.
    later = opstep.Scope()
    assert opstep.resume(tmp_path / "at.safetensors", built.main, later)
    assert later.find("reader_loop_0.step") == 6
    built.executor.run(built.main, scope=later)
    whole = opstep.Scope()
    built.executor.run(built.startup, scope=whole)
    built.executor.run(built.main, scope=whole)
    for name in whole.names():
        np.testing.assert_array_equal(later.find(name), whole.find(name), err_msg=name)
