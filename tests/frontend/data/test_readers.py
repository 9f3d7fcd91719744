"""Readers: minibatches in a known order, ends that are said, endless streams, composition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import opstep
from harness.world import World
from opstep import layers, readers

ROWS = {"x": np.arange(20).reshape(10, 2), "label": np.arange(10)}


def labels(reader: readers.Reader, calls: int) -> list[tuple[list[int], bool]]:
    answers = [reader() for _ in range(calls)]
    return [(batch["label"].tolist(), end) for batch, end in answers]


def test_the_last_minibatch_says_that_it_is_the_last() -> None:
    reader = readers.from_arrays(ROWS, batch=4)
    one_pass = [([0, 1, 2, 3], False), ([4, 5, 6, 7], False), ([8, 9], True)]
    assert labels(reader, 6) == one_pass * 2
    batch, _ = reader()
    assert np.array_equal(batch["x"], ROWS["x"][:4])
    dropping = readers.from_arrays(ROWS, batch=4, drop_last=True)
    assert labels(dropping, 3) == [([0, 1, 2, 3], False), ([4, 5, 6, 7], True), one_pass[0]]


def test_one_minibatch_is_a_pass() -> None:
    assert labels(readers.from_arrays(ROWS, batch=99), 2) == [(list(range(10)), True)] * 2


def test_every_pass_has_its_own_order_and_a_seed_gives_it_again() -> None:
    reader = readers.from_arrays(ROWS, batch=10, shuffle=3)
    first, second = labels(reader, 2)
    assert sorted(first[0]) == sorted(second[0]) == list(range(10))
    assert first != second
    assert labels(readers.from_arrays(ROWS, batch=10, shuffle=3), 2) == [first, second]
    assert labels(readers.from_arrays(ROWS, batch=10, shuffle=4), 1) != [first]
    reader.restart()
    assert labels(reader, 2) == [first, second]
    batch, _ = reader()
    assert np.array_equal(batch["x"], ROWS["x"][batch["label"]])  # rows stay together


def test_a_loop_is_one_pass() -> None:
    reader = readers.from_arrays(ROWS, batch=4, shuffle=0)
    seen = [np.concatenate([batch["label"] for batch in reader]) for _ in range(2)]
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(10))
    assert not np.array_equal(seen[0], seen[1])


def test_an_endless_reader_does_not_wait_for_what_comes_next() -> None:
    made = []

    def stream() -> Iterator[readers.Batch]:
        for number in range(3):
            made.append(number)
            yield {"label": np.array([number])}

    reader = readers.from_generator(stream, endless=True)
    assert labels(reader, 1) == [([0], False)] and made == [0]
    assert labels(reader, 2) == [([1], False), ([2], False)]
    with pytest.raises(opstep.Error, match="said to be endless, but its data ended"):
        reader()


def test_steps_and_repeats_have_no_end() -> None:
    steps = readers.from_steps(lambda n: {"label": np.array([n * n])})
    assert labels(steps, 4) == [([0], False), ([1], False), ([4], False), ([9], False)]
    assert labels(steps.take(2), 3) == [([0], False), ([1], True), ([0], False)]
    shuffled = readers.from_arrays(ROWS, batch=10, shuffle=3)
    endless = labels(shuffled.repeat(), 3)
    assert [row for row, _ in endless] == [row for row, _ in labels(shuffled, 3)]
    assert not any(end for _, end in endless)


def test_what_is_made_of_a_reader_leaves_it_where_it_is() -> None:
    reader = readers.from_arrays(ROWS, batch=5)
    reader()
    halved = reader.map(lambda batch: {"label": batch["label"] // 2})
    assert labels(halved, 2) == [([0, 0, 1, 1, 2], False), ([2, 3, 3, 4, 4], True)]
    assert labels(reader, 1) == [([5, 6, 7, 8, 9], True)]


def test_readers_one_after_the_other_and_side_by_side() -> None:
    reader = readers.from_arrays(ROWS, batch=10)
    small = readers.from_arrays({"label": np.array([77])}, batch=1)
    both = readers.chain(small, reader)
    assert labels(both, 3) == [([77], False), (list(range(10)), True), ([77], False)]
    noise = readers.from_steps(lambda n: {"noise": n})
    joined = readers.join(noise, reader)
    assert not joined.endless
    batch, end = joined()
    assert end and batch["noise"] == 0 and batch.keys() == {"x", "label", "noise"}


def test_minibatches_can_be_fed(world: World) -> None:
    x = layers.data("x", shape=[None, 2], dtype="int64")
    label = layers.data("label", shape=[None], dtype="int64")
    total = layers.reduce_sum(x) + layers.reduce_sum(label)
    fed = [
        int(world.exe.run(feed=batch, fetch_list=[total])[0])
        for batch in readers.from_arrays(ROWS, batch=3)
    ]
    assert sum(fed) == 190 + 45 and len(fed) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: readers.from_arrays({}, 1), "from_arrays was given no array"),
        (lambda: readers.from_arrays([3], 1), "needs a dict of names and arrays, not a list"),
        (lambda: readers.from_arrays({"x": 3}, 1), "'x' has no rows"),
        (
            lambda: readers.from_arrays({"x": [1, 2], "y": [1]}, 1),
            "'x' has 2 rows but 'y' has 1",
        ),
        (lambda: readers.from_arrays(ROWS, 0), "batch is 0: it must be 1 or more"),
        (
            lambda: readers.from_arrays(ROWS, 11, drop_last=True),
            "'x' has 10 rows, which make no minibatch of 11",
        ),
        (lambda: readers.from_generator(list)(), "its data are empty"),
        (lambda: readers.from_generator(lambda: [3])(), "dicts of name and value, not as a int"),
        (lambda: readers.from_arrays(ROWS, 1).take(0), "cannot take 0 minibatches"),
        (
            lambda: readers.chain(readers.from_arrays(ROWS, 1).repeat(), readers.chain()),
            "chain was given no reader",
        ),
        (
            lambda: readers.chain(*[readers.from_steps(lambda n: {"n": n})] * 2),
            "put it last",
        ),
        (
            lambda: readers.join(*[readers.from_arrays(ROWS, 1)] * 2)(),
            "two of the joined readers give 'label'",
        ),
        (
            lambda: list(
                readers.join(
                    readers.from_arrays({"a": [1, 2, 3]}, 1), readers.from_arrays({"b": [1, 2]}, 1)
                )
            ),
            "the joined readers do not end together: one ended after 2",
        ),
    ],
)
def test_what_cannot_be_read_is_said(make: object, message: str) -> None:
    with pytest.raises(opstep.Error) as caught:
        make()  # type: ignore[operator]
    assert message in str(caught.value)
