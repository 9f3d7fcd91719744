"""Dropout over several runs: other elements each time, and the same ones in every repetition."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from opstep import layers, ops

SIZE = 100_000


class Net:
    """x → dropout, whose count is a variable of the scope that each run increments."""

    def __init__(self, ratio: float, seed: int = 0) -> None:
        self.main, startup = opstep.Program(), opstep.Program()
        with opstep.program_guard(self.main, startup):
            x = layers.data("x", shape=[SIZE])
            x.stop_gradient = False
            count = self.main.global_block().create_var(
                "count", [1], "int64", persistable=True, stop_gradient=True
            )
            self.out, self.mask = ops.dropout(x, count, ratio=ratio, training_mode=True, seed=seed)
            ops.increment(count, out=count)
            loss = ops.reduce_sum(self.out, keepdims=False)
            ((_, self.gradient),) = opstep.append_backward(loss, [x])
        self.scope = opstep.Scope()
        self.scope.set("count", np.zeros(1, np.int64))

    def run(self, program: opstep.Program | None = None) -> list[np.ndarray]:
        fetches = [self.out, self.mask] + ([] if program else [self.gradient])
        return opstep.Executor().run(
            program or self.main,
            feed={"x": np.ones(SIZE, np.float32)},
            fetch_list=[variable.name for variable in fetches],
            scope=self.scope,
        )


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_the_share_that_is_dropped(ratio: float) -> None:
    out, mask, _ = Net(ratio).run()
    deviation = np.sqrt(ratio * (1 - ratio) / SIZE)
    assert abs((~mask).mean() - ratio) < 5 * deviation
    assert np.array_equal(out, np.where(mask, np.float32(1 / (1 - ratio)), np.float32(0)))


def test_each_run_drops_other_elements() -> None:
    net = Net(0.5)
    masks = [net.run()[1] for _ in range(4)]
    for i, first in enumerate(masks):
        for second in masks[:i]:
            assert abs((first == second).mean() - 0.5) < 5 * 0.5 / np.sqrt(SIZE)


def test_the_same_seed_repeats_the_runs() -> None:
    first, second, other = Net(0.5, seed=3), Net(0.5, seed=3), Net(0.5, seed=4)
    for _ in range(2):
        mask = first.run()[1]
        assert np.array_equal(mask, second.run()[1])
        assert not np.array_equal(mask, other.run()[1])


def test_the_gradient_goes_through_what_was_kept() -> None:
    net = Net(0.5)
    for _ in range(2):
        out, _, gradient = net.run()
        assert np.array_equal(gradient, out)


def test_a_program_for_testing_drops_nothing() -> None:
    net = Net(0.5)
    out, mask = net.run(net.main.clone(for_test=True))
    assert out.min() == 1 and mask.all()
