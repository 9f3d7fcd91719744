"""Ragged variables: values, feeds, fetches, what results take over, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import Ragged, layers, readers

pytestmark = pytest.mark.usefixtures("world")

WORDS = [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [], [[7.0, 8.0]]]


def words(**more: Any) -> opstep.Variable:
    return layers.data("words", shape=[None, 2], lod_level=1, **more)


def run(fetches: Any, **feed: Any) -> list[Any]:
    return opstep.Executor().run(feed=feed, fetch_list=fetches)


# --- values -------------------------------------------------------------------------------------


def test_a_ragged_is_made_of_lists() -> None:
    value = Ragged([[1, 2, 3], [], [4]])
    assert value.values.tolist() == [1, 2, 3, 4]
    assert value.offsets.tolist() == [0, 3, 3, 4] and value.offsets.dtype == np.int64
    assert value.lengths.tolist() == [3, 0, 1]
    assert (len(value), value.lod_level) == (3, 1)
    assert value[0].tolist() == [1, 2, 3] and value[-1].tolist() == [4]
    assert [part.tolist() for part in value] == value.to_list() == [[1, 2, 3], [], [4]]
    assert value[1:].to_list() == [[], [4]]
    assert value[[2, 0]].to_list() == [[4], [1, 2, 3]]
    assert value[3:].to_list() == []
    with pytest.raises(IndexError, match="sequence 3 is not there: there are 3"):
        value[3]


def test_rows_of_arrays_keep_their_dtype() -> None:
    rows = [np.ones((2, 3), np.float32), np.empty((0, 3), np.float32), np.zeros((1, 3), np.float32)]
    value = Ragged(rows)
    assert value.values.shape == (3, 3) and value.dtype == np.float32
    assert value.astype("float64").dtype == np.float64
    assert Ragged([[], np.ones((2, 3), np.float32)]).values.shape == (2, 3)
    assert Ragged([[1], [2]], dtype="int32").dtype == np.int32


def test_two_levels() -> None:
    value = Ragged([[[1, 2], [3]], [], [[4, 5, 6]]], lod_level=2)
    assert [level.tolist() for level in value.levels] == [[0, 2, 2, 3], [0, 2, 3, 6]]
    assert value.lengths.tolist() == [2, 0, 1]
    assert isinstance(value[0], Ragged) and value[0].to_list() == [[1, 2], [3]]
    assert value[2].to_list() == [[4, 5, 6]]
    assert value[[2, 0]].to_list() == [[[4, 5, 6]], [[1, 2], [3]]]
    assert value[:0].to_list() == [] and value[:0].lod_level == 2


def test_offsets_are_checked() -> None:
    rows = np.arange(4)
    assert Ragged.from_offsets(rows, [0, 1, 4]).to_list() == [[0], [1, 2, 3]]
    assert Ragged.from_offsets(rows, [0, 2], [0, 1, 4]).to_list() == [[[0], [1, 2, 3]]]
    for offsets, what in [
        ([[0, 3]], "the offsets end with 3, but there are 4 rows"),
        ([[1, 4]], "offsets must begin with 0, not with 1"),
        ([[0, 3, 2, 4]], "offsets must not fall: offsets[2] is 2 after 3"),
        ([[0.0, 4.0]], "offsets must be whole numbers, [sequences + 1], not float64[2]"),
        ([[]], "offsets must be whole numbers, [sequences + 1], not float64[0]"),
        ([[0, 3], [0, 1, 4]], "the offsets end with 3, but there are 2 sequences of the next"),
        ([], "a Ragged needs offsets: where each sequence begins, and the row count"),
    ]:
        with pytest.raises(opstep.Error) as caught:
            Ragged.from_offsets(rows, *offsets)
        assert str(caught.value).startswith(what)


@pytest.mark.parametrize(
    ("sequences", "what"),
    [
        ([1, 2], "sequence 0 is 1: it must be a list of rows"),
        (3, "the value is 3: it must be a list of sequences"),
        ([[1, [2]]], "sequence 0 is not a list of numbers or rows of one shape"),
        ([[[1, 2]], [[3]]], "a sequence has rows of shape [1], another has rows of [2]: all"),
    ],
)
def test_wrong_lists_are_one_sentence(sequences: Any, what: str) -> None:
    with pytest.raises(opstep.Error) as caught:
        Ragged(sequences)
    assert str(caught.value).startswith(what)


def test_it_is_shown_as_its_sequences() -> None:
    value = Ragged([[1, 2, 3], [4]])
    assert repr(value) == "Ragged([array([1, 2, 3]),\n        array([4])])"
    assert repr(Ragged([[1]] * 20)).endswith("… 12 more])")
    page = value._repr_html_()
    assert "2 sequences of int64[4 rows]" in page
    assert "<td>0</td><td>3</td><td>[1 2 3]</td>" in page


# --- in programs --------------------------------------------------------------------------------


def test_data_has_its_companions() -> None:
    x = words()
    assert x.lod_level == 1 and words() is x
    (level,) = x.lod
    assert (level.offsets.name, level.steps.name) == ("words@offsets", "words@steps")
    assert (level.offsets.dtype, level.offsets.shape) == ("int64", (None,))
    pairs = layers.data("pairs", shape=[None], dtype="int64", lod_level=2)
    assert [level.offsets.name for level in pairs.lod] == ["pairs@offsets_0", "pairs@offsets_1"]
    assert repr(x) == "<variable words float32[?, 2] in sequences>"
    assert repr(pairs) == "<variable pairs int64[?] in sequences of sequences>"
    assert "words float32[?, 2] in sequences = feed(" in str(x.program)
    assert "float32[?, 2] in sequences" in x._repr_html_()
    assert x.program._core.feed_names() == ["words", "pairs"]


@pytest.mark.parametrize("kind", ["Ragged", "arrays", "lists"])
def test_what_is_fed_comes_back(kind: str) -> None:
    x = words()
    arrays = [np.array(each, np.float32).reshape(-1, 2) for each in WORDS]
    value = {"Ragged": Ragged(arrays), "arrays": arrays, "lists": WORDS}[kind]
    fed, doubled, total = run([x, x * 2.0, layers.reduce_sum(x)], words=value)
    assert isinstance(fed, Ragged) and fed.to_list() == WORDS
    assert doubled.to_list() == [[[2 * n for n in row] for row in each] for each in WORDS]
    assert isinstance(total, np.ndarray) and total == 36


def test_a_compiled_program_takes_and_gives_them() -> None:
    x = words()
    out = layers.relu(x)
    step = opstep.compile(feeds=[x], fetches=[out, x.lod[0].offsets])
    for value in (WORDS, WORDS[:1], [[], []]):
        fetched, offsets = step(words=value)
        assert fetched.to_list() == value
        assert offsets.tolist() == fetched.offsets.tolist()
    with pytest.raises(opstep.Error, match="it has sequences of different lengths, but the value"):
        step(np.ones((3, 2), np.float32))
    by_hand = opstep.compile(feeds=["words", "words@offsets", "words@steps"], fetches=[out])
    rows = np.ones((3, 2), np.float32)
    (fetched,) = by_hand(rows, np.array([0, 1, 3]), np.arange(2))
    assert fetched.lengths.tolist() == [1, 2]


def test_two_levels_are_fed_and_fetched() -> None:
    x = layers.data("x", shape=[None], lod_level=2)
    value = [[[1.0, 2.0], [3.0]], [], [[4.0]]]
    same, pooled = run([x + 0.0, layers.sequence_pool(x, "max")], x=value)
    assert same.to_list() == value
    assert pooled.lod_level == 1 and pooled.to_list() == [[2, 3], [], [4]]


def test_results_with_the_same_rows_are_ragged_too() -> None:
    x = words()
    y = layers.data("y", shape=[None, 2], lod_level=1)
    ids = layers.data("ids", shape=[None], dtype="int64", lod_level=1)
    dense = layers.data("dense", shape=[None, 2])
    assert layers.fc(x, size=3, act="relu").lod == x.lod
    assert layers.embedding(ids, [10, 4]).lod == ids.lod
    assert layers.softmax(layers.concat([x, x * 2.0], axis=1)).lod == x.lod
    assert x.sum(axis=1).lod == x.lod
    assert (x + dense).lod == x.lod
    # Of two that must have equally many rows, the first.
    assert (x + y).lod == x.lod
    assert layers.concat([x, y], axis=0).lod_level == 0
    assert x.sum(axis=0).lod_level == 0
    assert layers.transpose(x, [1, 0]).lod_level == 0
    assert x[1:].lod_level == 0
    assert x.reshape(-1, 1).lod_level == 0
    assert layers.matmul(x, y.T).lod == x.lod and layers.matmul(y, x.T).lod == y.lod


def test_gradients_are_in_the_same_sequences() -> None:
    x = words()
    x.stop_gradient = False
    loss = layers.mean(layers.sequence_pool(layers.tanh(x), "sum"))
    ((_, gradient),) = opstep.append_backward(loss, [x])
    assert gradient.lod == x.lod
    (value,) = run([gradient], words=WORDS)
    expected = (1 - np.tanh(Ragged(WORDS).values) ** 2) / 6
    assert value.lengths.tolist() == [3, 0, 1]
    np.testing.assert_allclose(value.values, expected, rtol=1e-4, atol=1e-7)


ROWS = np.ones((4, 2), np.float32)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (ROWS, "cannot feed 'words': it has sequences of different lengths, but the value is an"),
        (7, "cannot feed 'words': it has sequences of different lengths, but the value is a int"),
        (Ragged([[[1, 2]]], lod_level=1).astype("float64"), "cannot feed 'words': it is float32"),
        (Ragged([["a"]]), "cannot feed 'words': it is float32, but the sequences have values of"),
        (
            Ragged([[[[1, 2]]]], lod_level=2),
            "cannot feed 'words': it has 1 levels of sequences, but",
        ),
        ([[1, 2]], "cannot feed 'words': its shape is [?, 2] but the value's is [2]"),
        ([ROWS, 1], "cannot feed 'words': sequence 1 is 1: it must be a list of rows"),
    ],
)
def test_wrong_feeds_are_one_sentence(value: Any, what: str) -> None:
    out = layers.sequence_pool(words(), "sum")
    with pytest.raises(opstep.Error) as caught:
        run([out], words=value)
    assert str(caught.value).startswith(what) and "\n" not in str(caught.value)


def test_wrong_declarations_are_one_sentence() -> None:
    with pytest.raises(opstep.Error, match="'x' is declared ragged: the first size of its"):
        layers.data("x", shape=[3, 2], lod_level=1)
    with pytest.raises(opstep.Error, match="lod_level is -1, but a ragged variable has 1 or more"):
        layers.data("x", shape=[None, 2], lod_level=-1)
    words()
    with pytest.raises(opstep.Error, match="there is already a variable 'words', and it is not"):
        layers.data("words", shape=[None, 2])
    dense = layers.data("dense", shape=[None, 2])
    with pytest.raises(opstep.Error, match=r"\[sequence_pool\] 'dense' is not ragged: declare its"):
        layers.sequence_pool(dense, "sum")
    with pytest.raises(opstep.Error, match="'dense': the value has sequences of different lengths"):
        run([dense * 1.0], words=WORDS, dense=Ragged(WORDS))


def test_declare_makes_a_variable_that_is_not_fed() -> None:
    block = opstep.default_main_program().global_block()
    x = opstep.ragged.declare(block, "x", [None, 3], "float32", 1)
    assert x.lod_level == 1 and block.ops == []


def test_copies_and_parts_keep_them() -> None:
    x = words()
    scores = layers.fc(x, size=3)
    pooled = layers.sequence_pool(scores, "max")
    program = scores.program
    part = program.prune([scores])
    assert part._core.feed_names() == ["words"] and "words@steps" in part.global_block().vars
    assert program.clone(for_test=True).global_block().var(scores.name).lod_level == 1
    again = opstep.Program.from_bytes(program.to_bytes())
    assert again.global_block().var(scores.name).lod_level == 1
    machine = opstep.compose(opstep.model_of(scores), opstep.model_of(layers.mean(pooled)))
    fed = machine.feed({"words": WORDS})
    assert fed.forward(scores).lengths.tolist() == [3, 0, 1]
    assert np.isfinite(fed.backward())
    with pytest.raises(opstep.Error, match="must be fed 'words' too"):
        machine.feed({}).forward()


def test_a_ragged_output_can_be_connected_to_a_ragged_feed() -> None:
    scores = layers.tanh(words())
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        taken = layers.data("taken", shape=[None, 2], lod_level=1)
        loss = layers.mean(layers.sequence_pool(taken, "last"))
        judge = opstep.model_of(loss)
    machine = opstep.compose(opstep.model_of(scores), judge, connect={taken: scores})
    assert machine.feeds == ["words"]
    expected = np.tanh([[5, 6], [0, 0], [7, 8]]).mean()
    np.testing.assert_allclose(machine.feed({"words": WORDS}).forward(), expected, rtol=1e-5)


def test_a_model_is_saved_with_ragged_feeds(tmp_path: Path) -> None:
    x = words()
    out = layers.sequence_softmax(layers.fc(x, size=1, bias=False))
    exe = opstep.Executor()
    exe.run(opstep.default_startup_program())
    opstep.save_model(tmp_path / "model", feeds=[x], fetches=[out])
    (before,) = run([out], words=WORDS)
    scope = opstep.Scope()
    program, feeds, fetches = opstep.load_model(tmp_path / "model", scope)
    assert (feeds, fetches) == (["words"], [out.name])
    (after,) = exe.run(program, feed={"words": WORDS}, fetch_list=fetches, scope=scope)
    assert after.to_list() == before.to_list() and after.lengths.tolist() == [3, 0, 1]


def test_readers_give_minibatches_of_sequences() -> None:
    value = Ragged([[i] * i for i in range(7)])
    reader = readers.from_arrays({"x": value, "label": np.arange(7)}, batch=3, shuffle=1)
    batches = list(reader)
    assert [len(batch["x"]) for batch in batches] == [3, 3, 1]
    for batch in batches:
        assert batch["x"].lengths.tolist() == batch["label"].tolist()
    with pytest.raises(opstep.Error, match="'x' has 7 rows but 'label' has 6"):
        readers.from_arrays({"x": value, "label": np.arange(6)}, batch=3)


def test_the_synthetic_sequences_can_be_ragged() -> None:
    reader = opstep.datasets.sequences(rows=200, steps=9, symbols=5, batch=200, shortest=3)
    ((batch),) = list(reader)
    x, label = batch["x"], batch["label"]
    assert set(x.lengths.tolist()) == set(range(3, 10))
    again = [int((row[1:] == row[0]).any()) for row in x]
    assert again == label[:, 0].tolist() and 60 < sum(again) < 140
    with pytest.raises(opstep.Error, match="shortest is 1: it must be from 2 to steps, 8"):
        opstep.datasets.sequences(shortest=1)
