"""Data sets: what they hold, the same in every process, and that they can be learned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

import opstep
from harness.world import World
from opstep import datasets, layers, metrics
from opstep.readers import Reader


def whole(reader: Reader) -> dict[str, np.ndarray]:
    batches = list(reader)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def test_the_digits() -> None:
    train, test = whole(datasets.digits("train")), whole(datasets.digits("test", batch=360))
    assert train["x"].shape == (1437, 1, 8, 8) and train["x"].dtype == np.float32
    assert test["label"].shape == (360, 1) and test["label"].dtype == np.int64
    every = whole(datasets.digits("all"))
    assert np.array_equal(every["x"], np.concatenate([train["x"], test["x"]]))
    assert np.bincount(every["label"][:, 0]).tolist() == [
        *(178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
    ]
    assert every["x"].min() == 0 and every["x"].max() == 1
    assert int((every["x"] * 16).sum(dtype=np.float64)) == 561718


def test_iris() -> None:
    train, test = whole(datasets.iris("train")), whole(datasets.iris("test"))
    assert len(train["x"]) == 120 and len(test["x"]) == 30
    every = whole(datasets.iris("all", shuffle=1))
    assert np.bincount(every["label"][:, 0]).tolist() == [50, 50, 50]
    assert every["x"].sum(0, np.float64) == pytest.approx([876.5, 458.6, 563.7, 179.9])
    setosa = every["x"][every["label"][:, 0] == 0]
    assert setosa.mean(0) == pytest.approx([5.006, 3.428, 1.462, 0.246], abs=1e-5)


def test_nobody_changes_the_data_of_others() -> None:
    batch, _ = datasets.digits()()
    with pytest.raises(ValueError, match="read-only"):
        batch["x"][0] = 7


def test_regression_has_a_line_in_it() -> None:
    data = whole(datasets.regression(rows=400, features=3, noise=0.0))
    x = np.hstack([data["x"], np.ones((400, 1))])
    _, rest, rank, _ = np.linalg.lstsq(x, data["y"], rcond=None)
    assert rank == 4 and rest[0] < 1e-8
    noisy = whole(datasets.regression(rows=4000, features=3, noise=0.5))
    x = np.hstack([noisy["x"], np.ones((4000, 1))])
    _, rest, _, _ = np.linalg.lstsq(x, noisy["y"], rcond=None)
    assert rest[0] / 4000 == pytest.approx(0.25, rel=0.1)


def test_sequences_keep_their_rule() -> None:
    data = whole(datasets.sequences(rows=500, steps=6, symbols=4))
    again = (data["x"][:, 1:] == data["x"][:, :1]).any(1)
    assert np.array_equal(again, data["label"][:, 0] == 1)
    assert 0.4 < again.mean() < 0.6
    assert data["x"].min() == 0 and data["x"].max() == 3


def test_images_show_their_line() -> None:
    data = whole(datasets.images(rows=300, size=9, noise=0.0))
    for picture, (label,) in zip(data["x"][:, 0], data["label"], strict=True):
        down, right = np.nonzero(picture)
        assert len(down) >= 3
        same = [down, right, right - down, right + down][label]
        assert len(set(same.tolist())) == 1
    assert set(data["label"][:, 0]) == {0, 1, 2, 3}


MAKERS: list[Callable[..., Reader]] = [datasets.regression, datasets.sequences, datasets.images]


@pytest.mark.parametrize("make", MAKERS)
def test_a_seed_gives_the_same_data(make: Callable[..., Reader]) -> None:
    def digest(seed: int) -> str:
        data = whole(make(rows=50, seed=seed))
        return hashlib.sha256(b"".join(a.tobytes() for a in data.values())).hexdigest()

    assert digest(1) == digest(1) != digest(2)


def test_iris_is_learned(world: World) -> None:
    x = layers.data("x", shape=[None, 4])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    logits = layers.fc(layers.fc(x, size=16, act="tanh"), size=3)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    opstep.optimizer.Adam(0.02).minimize(loss)
    world.exe.run(world.startup)
    reader = datasets.iris("train", batch=16, shuffle=0)
    for _ in range(40):
        for batch in reader:
            world.exe.run(feed=batch)
    accuracy = metrics.Accuracy()
    test = world.main.prune([logits])
    for batch in datasets.iris("test"):
        (scores,) = world.exe.run(test, {"x": batch["x"]}, [logits])
        accuracy.append(scores, batch["label"])
    assert accuracy.value >= 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: datasets.digits("tset"), "digits has no part 'tset': there are train, test, all"),
        (lambda: datasets.regression(rows=0), "rows is 0: it must be 1 or more"),
        (lambda: datasets.sequences(steps=1), "steps is 1: it must be 2 or more"),
        (lambda: datasets.images(size=2), "size is 2: it must be 3 or more"),
    ],
)
def test_what_there_is_not_is_said(make: Callable[[], Reader], message: str) -> None:
    with pytest.raises(opstep.Error) as caught:
        make()
    assert str(caught.value) == message
