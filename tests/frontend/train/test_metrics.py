"""Metrics: exact numbers over many minibatches, and one sentence for what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from harness.world import World
from opstep import layers, metrics


def test_a_mean_is_weighted() -> None:
    mean = metrics.Mean()
    mean.append(1.0)
    mean.append(np.array([4.0], np.float32), weight=3)
    assert mean.value == 13 / 4
    mean.reset()
    mean.append(2)
    assert mean.value == 2


@pytest.mark.parametrize("k", [1, 2])
def test_accuracy_is_that_of_the_layer(world: World, k: int) -> None:
    scores = layers.data("scores", shape=[None, 5])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    layer = layers.accuracy(scores, label, k=k)
    rng = np.random.default_rng(1)
    # Few distinct values, so that there are ties.
    values = rng.integers(0, 4, (90, 5)).astype(np.float32)
    values[3, 2] = np.nan
    labels = rng.integers(0, 5, (90, 1))
    (expected,) = world.exe.run(world.main, {"scores": values, "label": labels}, [layer])
    accuracy = metrics.Accuracy(k)
    for at in range(0, 90, 40):
        accuracy.append(values[at : at + 40], labels[at : at + 40])
    assert np.float32(accuracy.value) == expected


def test_accuracy_by_hand() -> None:
    accuracy = metrics.Accuracy()
    accuracy.append([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], [1, 1, 0])
    assert accuracy.value == 2 / 3
    assert repr(accuracy) == f"<Accuracy {2 / 3}>"


def test_auc_counts_pairs() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.integers(0, 9, 200) / 8, rng.integers(0, 2, 200)
    auc = metrics.AUC()
    auc.append(scores[:77], labels[:77])
    auc.append(np.stack([1 - scores[77:], scores[77:]], 1), labels[77:, None])
    ones, zeros = scores[labels == 1][:, None], scores[labels == 0]
    pairs = (ones > zeros).sum() + (ones == zeros).sum() / 2
    assert auc.value == pairs / (len(ones) * len(zeros))
    auc.reset()
    auc.append([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    assert auc.value == 0.75


def test_precision_and_recall_by_hand() -> None:
    found = metrics.PrecisionRecall()
    found.append([0.9, 0.5, 0.2, 0.7], [1, 0, 1, 1])
    found.append([[0.1], [0.6]], [[0], [0]])
    assert found.value == (2 / 4, 2 / 3)
    assert found.f1 == 4 / 7
    of_two = metrics.PrecisionRecall(positive=2)
    of_two.append(np.eye(3)[[2, 2, 0, 1]], [2, 1, 2, 1])
    assert of_two.value.precision == 0.5 and of_two.value.recall == 0.5
    of_two.reset()
    of_two.append(np.eye(3), [0, 1, 0])
    assert of_two.value == (0.0, 0.0)


@pytest.mark.parametrize(
    ("metric", "arguments", "message"),
    [
        (metrics.Mean(), ([1, 2],), "the value must be one number, not int64[2]"),
        (metrics.Mean(), (1, 0), "the weight is 0: it must be larger than 0"),
        (metrics.Accuracy(), ([1, 2], [0, 1]), "the scores are [2]: they must be [rows, classes]"),
        (metrics.Accuracy(), ([[1, 2], [3]], [0]), "the rows of the scores differ in length"),
        (metrics.Accuracy(), ([[1, 2]], [0, 1]), "scores for 1 rows, but the labels are [2]"),
        (metrics.Accuracy(), ([[1, 2]], [0.5]), "the labels are float64: they must be integers"),
        (metrics.Accuracy(), ([[1, 2]], [2]), "the label of row 0 is 2: it must be below 2"),
        (metrics.AUC(), (np.ones((2, 3)), [0, 1]), "the scores are [2, 3]: they must be [rows]"),
        (metrics.AUC(), ([0.5, np.nan], [0, 1]), "the scores have a NaN"),
        (metrics.PrecisionRecall(), (["a"], [1]), "the scores are <U1: they must be numbers"),
    ],
)
def test_what_does_not_fit_is_said(
    metric: metrics.Metric, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(opstep.Error) as caught:
        metric.append(*arguments)
    assert str(caught.value).startswith(f"[{type(metric).__name__}] ")
    assert message in str(caught.value)
    with pytest.raises(opstep.Error, match="nothing was appended yet"):
        _ = metric.value


def test_one_class_has_no_auc() -> None:
    auc = metrics.AUC()
    auc.append([0.1, 0.2], [1, 1])
    with pytest.raises(opstep.Error, match="all labels are 1: rows of both classes are needed"):
        _ = auc.value
