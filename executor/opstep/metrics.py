"""Measures over many minibatches: `append` one after the other, look at `value`, `reset`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from opstep._core import Error
from opstep.show.tables import facts_table


class Metric:
    """The base of all measures: `append`, `value` and `reset`."""

    @property
    def value(self) -> Any:
        """The measure over all that was appended since the last reset."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget what was appended."""
        raise NotImplementedError

    def _fail(self, message: str) -> Error:
        return Error(f"[{type(self).__name__}] {message}")

    def _nothing(self) -> Error:
        return self._fail("nothing was appended yet, so there is no value")

    def __repr__(self) -> str:
        try:
            return f"<{type(self).__name__} {self.value}>"
        except Error:
            return f"<{type(self).__name__} without a value yet>"

    def _facts(self) -> dict[str, Any]:
        """The facts that a notebook shows."""
        return {"value": self.value}

    def _repr_html_(self) -> str:
        try:
            facts = {
                name: f"{fact:.6g}" if isinstance(fact, float) else f"{fact:,}"
                for name, fact in self._facts().items()
            }
        except Error:
            facts = {"value": "none: nothing was appended yet"}
        return facts_table(type(self).__name__, facts)


class Mean(Metric):
    """The mean of numbers, such as the losses of minibatches; `weight` is often a batch's size."""

    def __init__(self) -> None:
        self.reset()

    def append(self, value: Any, weight: float = 1.0) -> None:
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "biuf":
            raise self._fail(
                f"the value must be one number, not {array.dtype}{list(array.shape)}: "
                "take its mean first"
            )
        if not weight > 0:
            raise self._fail(f"the weight is {weight}: it must be larger than 0")
        self._sum += float(array.reshape(())) * weight
        self._weight += weight

    @property
    def value(self) -> float:
        if not self._weight:
            raise self._nothing()
        return self._sum / self._weight

    def reset(self) -> None:
        self._sum = self._weight = 0.0


class Accuracy(Metric):
    """The share of rows whose label is among the `k` largest scores, as layers.accuracy has it."""

    def __init__(self, k: int = 1) -> None:
        if k < 1:
            raise self._fail(f"k is {k}: it must be 1 or more")
        self.k = k
        self.reset()

    def append(self, scores: Any, labels: Any) -> None:
        """`scores` is [rows, classes], `labels` [rows] or [rows, 1]."""
        table = _table(self, scores)
        classes = _labels(self, labels, len(table))
        _check_range(self, classes, table.shape[1])
        # Among equal scores the first counts as larger; NaN counts as the largest.
        order = np.argsort(np.flip(table, 1), axis=1, kind="stable")
        best = table.shape[1] - 1 - np.flip(order, 1)[:, : self.k]
        self._right += int((best == classes[:, None]).any(axis=1).sum())
        self._rows += len(table)

    @property
    def value(self) -> float:
        if not self._rows:
            raise self._nothing()
        return self._right / self._rows

    def reset(self) -> None:
        self._right = self._rows = 0

    def _facts(self) -> dict[str, Any]:
        return {"value": self.value, "right": self._right, "rows": self._rows}


class AUC(Metric):
    """The area under the ROC curve: how often a row of class 1 has a higher score than one of class
    0; equal scores count half. Exact, so all scores are kept until `reset`."""

    def __init__(self) -> None:
        self.reset()

    def append(self, scores: Any, labels: Any) -> None:
        """`scores` is [rows], [rows, 1] or [rows, 2], whose second column counts."""
        column = _positive_scores(self, scores)
        classes = _labels(self, labels, len(column))
        _check_range(self, classes, 2)
        if np.isnan(column).any():
            raise self._fail("the scores have a NaN, which has no place in their order")
        self._scores.append(column)
        self._labels.append(classes)

    @property
    def value(self) -> float:
        if not self._scores:
            raise self._nothing()
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        ones = int(labels.sum())
        zeros = len(labels) - ones
        if not ones or not zeros:
            raise self._fail(f"all labels are {int(ones > 0)}: rows of both classes are needed")
        # Rows of class 0 below each distinct score, and beside it.
        _, at = np.unique(scores, return_inverse=True)
        at = at.reshape(-1)
        zeros_at = np.bincount(at[labels == 0], minlength=at.max() + 1)
        ones_at = np.bincount(at[labels == 1], minlength=at.max() + 1)
        below = np.cumsum(zeros_at) - zeros_at
        won_twice = int((ones_at * (2 * below + zeros_at)).sum())
        return won_twice / (2 * ones * zeros)

    def reset(self) -> None:
        self._scores: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []


class PrecisionAndRecall(NamedTuple):
    """The value of `PrecisionRecall`."""

    precision: float
    recall: float


class PrecisionRecall(Metric):
    """Precision is the share of rows predicted as class `positive` that are in it; recall is the
    share of rows in it that are predicted as such. A share of no rows is 0.

    Scores in one column mean class 1 from `threshold` on; in several, the largest one wins.
    """

    def __init__(self, positive: int = 1, threshold: float = 0.5) -> None:
        self.positive, self.threshold = positive, threshold
        self.reset()

    def append(self, scores: Any, labels: Any) -> None:
        """`scores` is [rows], [rows, 1] or [rows, classes]."""
        array = _numbers(self, scores)
        if array.ndim == 2 and array.shape[1] > 1:
            taken = array.argmax(axis=1)
            count = array.shape[1]
        else:
            taken = (_positive_scores(self, array) >= self.threshold).astype(np.int64)
            count = 2
        classes = _labels(self, labels, len(taken))
        _check_range(self, classes, count)
        said, is_so = taken == self.positive, classes == self.positive
        self._hits += int((said & is_so).sum())
        self._said += int(said.sum())
        self._are += int(is_so.sum())
        self._rows += len(taken)

    @property
    def value(self) -> PrecisionAndRecall:
        if not self._rows:
            raise self._nothing()
        return PrecisionAndRecall(_share(self._hits, self._said), _share(self._hits, self._are))

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        if not self._rows:
            raise self._nothing()
        return _share(2 * self._hits, self._said + self._are)

    def reset(self) -> None:
        self._hits = self._said = self._are = self._rows = 0

    def _facts(self) -> dict[str, Any]:
        return {**self.value._asdict(), "f1": self.f1, "rows": self._rows}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _numbers(metric: Metric, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise metric._fail("the rows of the scores differ in length") from None
    # ml_dtypes' bfloat16 is of kind V for NumPy.
    if array.dtype.kind not in "biufV":
        raise metric._fail(f"the scores are {array.dtype}: they must be numbers")
    return array.astype(np.float64)


def _table(metric: Metric, scores: Any) -> np.ndarray:
    array = _numbers(metric, scores)
    if array.ndim != 2 or array.shape[1] < 1:
        raise metric._fail(f"the scores are {list(array.shape)}: they must be [rows, classes]")
    return array


def _positive_scores(metric: Metric, scores: Any) -> np.ndarray:
    """One score a row: how much it looks like class 1."""
    array = _numbers(metric, scores)
    if array.ndim == 1:
        return array
    if array.ndim == 2 and array.shape[1] in (1, 2):
        return array[:, -1]
    raise metric._fail(
        f"the scores are {list(array.shape)}: they must be [rows], [rows, 1] or [rows, 2]"
    )


def _labels(metric: Metric, labels: Any, rows: int) -> np.ndarray:
    array = np.asarray(labels)
    if array.dtype.kind not in "biu":
        raise metric._fail(f"the labels are {array.dtype}: they must be integers")
    if array.shape not in ((rows,), (rows, 1)):
        raise metric._fail(
            f"there are scores for {rows} rows, but the labels are {list(array.shape)}: they must "
            f"be [{rows}] or [{rows}, 1]"
        )
    return array.reshape(-1).astype(np.int64)


def _check_range(metric: Metric, labels: np.ndarray, classes: int) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        row = int(wrong[0])
        raise metric._fail(f"the label of row {row} is {labels[row]}: it must be below {classes}")
