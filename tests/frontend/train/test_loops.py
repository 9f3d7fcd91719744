"""The training loop as an op gives the same bits as a loop in Python."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import opstep
from opstep import layers, readers, records
from opstep.readers.pipelines import Pipeline
from opstep.variable import Variable

Network = Callable[[Variable, Variable], Variable]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """100 records: twelve numbers and a class of three."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 12)).astype(np.float32)
    label = (x[:, :3].argmax(axis=1)).astype(np.int64)[:, None]
    path = tmp_path / "data.rec"
    with records.Writer(path, {"x": ("float32", [12]), "label": ("int64", [1])}) as writer:
        writer.write_batch(x=x, label=label)
    return path


def plain(x: Variable, label: Variable) -> Variable:
    scores = layers.fc(layers.fc(x, size=8, act="relu"), size=3)
    return layers.mean(layers.softmax_with_cross_entropy(scores, label))


def conv(x: Variable, label: Variable) -> Variable:
    image = layers.reshape(x, [-1, 1, 3, 4])
    hidden = layers.batch_norm(layers.conv2d(image, filters=4, kernel=3, padding="same"))
    hidden = layers.dropout(layers.relu(hidden), 0.3)
    scores = layers.fc(layers.flatten(hidden), size=3)
    return layers.mean(layers.softmax_with_cross_entropy(scores, label))


def recurrent(x: Variable, label: Variable) -> Variable:
    steps = layers.transpose(layers.reshape(x, [-1, 4, 3]), [1, 0, 2])
    rnn = layers.Recurrent()
    with rnn.step():
        word = rnn.step_input(steps)
        before = rnn.memory(shape=[6])
        hidden = layers.fc(layers.concat([word, before], axis=1), size=6, act="tanh")
        rnn.update(before, hidden)
        rnn.output(hidden)
    rnn()
    scores = layers.fc(rnn.final[0], size=3)
    return layers.mean(layers.softmax_with_cross_entropy(scores, label))


def looping(x: Variable, label: Variable) -> Variable:
    """A loop in the loop, whose gradient goes through it."""
    w = layers.fc(x, size=12, act="tanh")
    i = layers.fill([1], 0, "int64")
    running = layers.less_than(i, 3)
    total = layers.zeros_like(w)
    loop = layers.While(running)
    with loop.block():
        layers.assign(layers.tanh(total + w), out=total)
        layers.increment(i)
        layers.less_than(i, 3, out=running)
    scores = layers.fc(total, size=3)
    return layers.mean(layers.softmax_with_cross_entropy(scores, label))


def branching(x: Variable, label: Variable) -> Variable:
    """Rows go two ways, as many as the batch happens to have."""
    branch = layers.IfElse(layers.less_than(x[:, 0], 0.0))
    with branch.true_block():
        branch.output(layers.fc(branch.input(x), size=3))
    with branch.false_block():
        branch.output(layers.tanh(layers.fc(branch.input(x), size=3)))
    return layers.mean(layers.softmax_with_cross_entropy(branch(), label))


def choosing(x: Variable, label: Variable) -> Variable:
    hidden = layers.fc(x, size=6)
    positive = layers.less_than(layers.reduce_sum(x), 0.0)
    chosen = layers.cond(positive, lambda: layers.relu(hidden), lambda: layers.tanh(hidden))
    scores = layers.fc(chosen, size=3)
    return layers.mean(layers.softmax_with_cross_entropy(scores, label))


NETWORKS = [plain, conv, recurrent, looping, branching, choosing]


def adam() -> opstep.optimizer.Optimizer:
    return opstep.optimizer.Adam(
        opstep.lr.ExponentialDecay(0.01, 20, 0.9),
        grad_clip=opstep.clipping.ClipByGlobalNorm(1.0),
    )


class Trained:
    """A network trained by a loop in the program, or by one in Python."""

    def __init__(self, network: Network, optimizer: Callable[[], opstep.optimizer.Optimizer]):
        self.main, self.startup = opstep.Program("main"), opstep.Program("startup")
        self.main.random_seed = 11
        self.scope = opstep.Scope()
        self.network, self.optimizer = network, optimizer
        self.executor = opstep.Executor()

    def inside(self, reader: Pipeline | readers.Reader, steps: int | None = None) -> np.ndarray:
        with opstep.program_guard(self.main, self.startup):
            with (loop := reader.iterate(steps)) as (x, label):
                loss = self.network(x, label)
                self.optimizer().minimize(loss)
                losses = loop.fetch(loss)
        self.executor.run(self.startup, scope=self.scope)
        return self.executor.run(self.main, fetch_list=[losses], scope=self.scope)[0]

    def outside(self, batches: Iterator[dict[str, np.ndarray]]) -> np.ndarray:
        with opstep.program_guard(self.main, self.startup):
            x = layers.data("x", [None, 12])
            label = layers.data("label", [None, 1], "int64")
            loss = self.network(x, label)
            self.optimizer().minimize(loss)
        self.executor.run(self.startup, scope=self.scope)
        losses = [
            self.executor.run(self.main, batch, [loss], scope=self.scope)[0] for batch in batches
        ]
        return np.array(losses)

    def values(self) -> dict[str, np.ndarray]:
        return {
            name: self.scope.find(name)
            for name in self.scope.names()
            if not name.startswith("reader_loop")
        }


def assert_equal(one: Trained, other: Trained) -> None:
    a, b = one.values(), other.values()
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name, strict=True)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.__name__)
@pytest.mark.parametrize("watched", [False, True], ids=["", "watched"])
def test_same_bits_as_a_loop_in_python(data: Path, network: Network, watched: bool) -> None:
    # 100 records in batches of 16: the last one of each pass is smaller.
    reader = readers.records(data).shuffle(40, seed=3).batch(16).repeat(3)
    hook = opstep._core.CountingHook()
    if watched:
        hook.install()
    try:
        inside = Trained(network, adam)
        losses = inside.inside(reader)
    finally:
        hook.remove()
    assert (hook.before > 0) == watched
    outside = Trained(network, adam)
    np.testing.assert_array_equal(losses, outside.outside(iter(reader)))
    assert len(losses) == 21
    assert losses[-3:].mean() < losses[:3].mean()
    assert_equal(inside, outside)


def test_python_readers_run_inside_too(data: Path) -> None:
    rng = np.random.default_rng(1)
    arrays = {
        "x": rng.normal(size=(50, 12)).astype(np.float32),
        "label": rng.integers(0, 3, (50, 1)),
    }
    reader = readers.from_arrays(arrays, batch=8, shuffle=4)
    inside, outside = Trained(plain, adam), Trained(plain, adam)
    np.testing.assert_array_equal(inside.inside(reader), outside.outside(iter(reader)))
    assert_equal(inside, outside)
    # A second run goes through the same pass again.
    assert len(inside.executor.run(inside.main, fetch_list=[], scope=inside.scope)) == 0


def test_steps_end_the_loop_early(data: Path) -> None:
    reader = readers.records(data).batch(10).repeat()
    assert len(Trained(plain, adam).inside(reader, steps=7)) == 7
    assert len(Trained(plain, adam).inside(reader, steps=0)) == 0


def test_a_condition_stops_it(data: Path) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        with (loop := readers.records(data).batch(10).repeat().iterate()) as (_x, _label):
            seen = loop.fetch(loop.step)
            with loop.every(4):
                loop.stop_when(layers.less_than(9, loop.step))
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    (steps,) = exe.run(main, fetch_list=[seen], scope=scope)
    assert steps.tolist() == list(range(12))


def test_fetches_every_nth_value_and_the_latest(data: Path) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        with (loop := readers.records(data).batch(10).iterate()) as (x, _label):
            sums = loop.fetch(layers.reduce_sum(x, axes=[0]), every=3, name="sums")
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    (values,) = exe.run(main, fetch_list=[sums], scope=scope)
    batches = [batch["x"].sum(axis=0) for batch in readers.records(data).batch(10)]
    np.testing.assert_allclose(values, np.array(batches)[[2, 5, 8]], rtol=1e-5)
    np.testing.assert_array_equal(scope.find("reader_loop_0.sums.latest"), values[-1])
    assert scope.find("reader_loop_0.total") == 10
    assert scope.find("reader_loop_0.step") == 0


def test_a_loop_inside_a_loop_begins_anew_each_time(data: Path) -> None:
    main, startup = opstep.Program(), opstep.Program()
    test = readers.records(data).batch(50)
    with opstep.program_guard(main, startup):
        with (loop := readers.records(data).batch(25).iterate()) as (_x, _label):
            total = layers.fill([1], 0.0)
            with loop.every(2), test.iterate() as (tx, _):
                layers.assign(total + layers.reduce_sum(tx), out=total)
            totals = loop.fetch(total)
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    (values,) = exe.run(main, fetch_list=[totals], scope=scope)
    whole = sum(float(batch["x"].sum()) for batch in test)
    np.testing.assert_allclose(values[:, 0], [0, whole, 0, whole], rtol=1e-4)


def test_map_runs_layers_on_each_record(data: Path) -> None:
    def change(x: Variable, label: Variable) -> dict[str, Variable]:
        return {"both": layers.concat([x * 2.0, layers.cast(label, "float32")], axis=0)}

    reader = readers.records(data).map(change).batch(30)
    assert [field.shape for field in reader.fields] == [(None, 13)]
    (first, *_) = list(reader)
    original = next(iter(readers.records(data).batch(30)))
    np.testing.assert_array_equal(first["both"][:, :12], original["x"] * 2)
    np.testing.assert_array_equal(first["both"][:, 12:], original["label"])
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup), (loop := reader.iterate()) as (both,):
        sums = loop.fetch(layers.reduce_sum(both))
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    (values,) = exe.run(main, fetch_list=[sums], scope=scope)
    np.testing.assert_allclose(values, [b["both"].sum() for b in reader], rtol=1e-4)


def test_a_pipeline_in_python_gives_record_and_end(data: Path) -> None:
    reader = readers.records(data).shuffle(100, seed=1).batch(40)
    assert reader.size == 3
    assert reader.repeat().size is None
    passes: list[list[np.ndarray]] = [[]]
    while len(passes) < 3:
        batch, end = reader()
        passes[-1].append(batch["x"])
        if end:
            passes.append([])
    first, second = np.concatenate(passes[0]), np.concatenate(passes[1])
    assert first.shape == second.shape == (100, 12)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(np.sort(first, axis=0), np.sort(second, axis=0))
    reader.restart()
    np.testing.assert_array_equal(reader()[0]["x"], passes[0][0])


def test_a_saved_program_trains_the_same_way(data: Path, tmp_path: Path) -> None:
    reader = readers.records(data).shuffle(40).batch(16)
    one = Trained(plain, adam)
    one.inside(reader)
    one.main.save(tmp_path / "main.opstep")
    one.startup.save(tmp_path / "startup.opstep")
    scope, exe = opstep.Scope(), opstep.Executor()
    exe.run(opstep.Program.load(tmp_path / "startup.opstep"), scope=scope)
    exe.run(opstep.Program.load(tmp_path / "main.opstep"), scope=scope)
    for name, value in one.values().items():
        np.testing.assert_array_equal(scope.find(name), value, err_msg=name)


# --- what goes wrong ------------------------------------------------------------------------------


def run_loop(reader: Pipeline | readers.Reader) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup), reader.iterate() as (x, *_):
        layers.reduce_sum(layers.fc(x, size=2))
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    exe.run(main, scope=scope)


def test_an_error_of_the_readers_code_names_its_line() -> None:
    def make() -> Iterator[dict[str, np.ndarray]]:
        yield {"x": np.zeros((2, 3), np.float32)}
        raise ValueError("no more of it")

    with pytest.raises(
        opstep.Error, match=r"raised ValueError: no more of it \(test_loops.py:\d+\)"
    ):
        run_loop(readers.from_generator(make))


def test_a_batch_that_does_not_fit_is_one_sentence() -> None:
    def make() -> Iterator[dict[str, np.ndarray]]:
        yield {"x": np.zeros((2, 3), np.float32)}
        yield {"x": np.zeros((2, 4), np.float32)}

    with pytest.raises(
        opstep.Error,
        match=r"'reader_loop_0.x' is float32\[\?, 3\] in the program, but float32\[2, 4\] came",
    ):
        run_loop(readers.from_generator(make))


def test_a_file_that_is_gone_is_named(data: Path) -> None:
    reader = readers.records(data).batch(4)
    data.unlink()
    with pytest.raises(opstep.Error, match=r"\[read_records\] .*data.rec"):
        run_loop(reader)


def test_data_of_another_process_are_asked_for(data: Path) -> None:
    reader = readers.from_arrays({"x": np.zeros((4, 3), np.float32)}, batch=2)
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup), reader.iterate() as (x,):
        layers.reduce_sum(x)
    saved = opstep.Program.from_bytes(main.to_bytes())
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    exe.run(saved, scope=scope)  # it is still the same process
    del reader, main, x
    gc.collect()
    with pytest.raises(opstep.Error, match="from Python code that this process does not have"):
        exe.run(saved, scope=scope)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda r: r.batch(0), "batch: size is 0, but it must be a whole number from 1 on"),
        (lambda r: r.shuffle(2.5), "shuffle: buffer is 2.5"),
        (lambda r: r.repeat(-1), "repeat: times is -1"),
        (lambda r: r.map(lambda x, label: x), "must give a dict of names and variables"),
        (lambda r: r.iterate(steps=-2), "steps is -2, but it must be a whole number or None"),
    ],
)
def test_bad_arguments(data: Path, make: Callable[[Pipeline], object], sentence: str) -> None:
    with pytest.raises(opstep.Error, match=sentence):
        make(readers.records(data))


def test_map_cannot_see_the_program(data: Path) -> None:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        outside = layers.fill([1], 1.0)
        reader = readers.records(data)
        with pytest.raises(opstep.Error, match="belongs to program"):
            reader.map(lambda x, label: {"x": x + outside}).variable()


def test_the_inside_is_for_the_inside(data: Path) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        with (loop := readers.records(data).batch(4).iterate()) as (x, _):
            layers.reduce_sum(x)
        with pytest.raises(opstep.Error, match=r"loop\.fetch of a loop is for the inside"):
            loop.fetch(x)
        with pytest.raises(opstep.Error, match="has its block already"):
            loop.__enter__()


def test_an_error_inside_leaves_no_half_loop(data: Path) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        with pytest.raises(ZeroDivisionError), readers.records(data).batch(4).iterate():
            raise ZeroDivisionError
        assert main.current_block().index == 0
        layers.fill([1], 1.0)
    assert "reader_loop(" not in str(main)
