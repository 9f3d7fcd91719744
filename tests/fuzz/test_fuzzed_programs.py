"""A short run of the fuzz: `make fuzz` has the long one."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

import opstep
from fuzz.programs import RandomProgram, fuzz, usable_cases
from opstep import _core, layers, ops

KNOWN = usable_cases()


def test_random_programs_are_right_or_refused() -> None:
    results, findings = fuzz(0, 120, None, KNOWN)
    assert not findings, "\n".join(findings)
    assert results["second"] > 40, results


@pytest.mark.parametrize("op", sorted({case.type for case in KNOWN}))
def test_each_op_is_right_or_refused(op: str) -> None:
    """Values, first and second gradients of all its samples."""
    for case in KNOWN:
        if case.type == op:
            RandomProgram(0, [case], length=1).check()


def test_no_op_with_a_gradient_is_left_out() -> None:
    differentiable = {schema["type"] for schema in _core.ops() if schema["has_grad"]}
    left_out = {op for op in differentiable if not op.endswith("_grad")}
    left_out -= {case.type for case in KNOWN}
    # They hold other ops, or Python code: test_double_gradients.py and test_pylayer.py.
    assert len(left_out) == 8, left_out


@pytest.mark.parametrize(
    "case",
    [c for c in KNOWN if c.type in ("gemm", "layer_norm", "reduce_l2")],
    ids=lambda c: c.label,
)
def test_ops_that_were_wrong(case) -> None:
    for seed in range(4):
        RandomProgram(seed, [case], length=2).check()


ALL = "xwb"
SOME = list(chain.from_iterable(combinations(ALL, n) for n in (1, 2, 3)))


@pytest.mark.parametrize("kind", ["gemm", "layer_norm"])
@pytest.mark.parametrize("first", SOME, ids="".join)
def test_second_gradients_of_some_inputs(kind: str, first: tuple[str, ...]) -> None:
    """A rule that is asked for a gradient which is zero writes nothing: it is not added up."""
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        v = {n: layers.data(n, [3] if n == "b" else [3, 3], "float64") for n in ALL}
        for each in v.values():
            each.stop_gradient = False
        if kind == "gemm":
            y = ops.gemm(v["x"], v["w"], v["b"])
        else:
            y = ops.layer_norm(ops.matmul(v["x"], v["w"]), v["b"], v["b"])
        loss = ops.reduce_sum(ops.tanh(y))
        gradients = opstep.gradients(loss, [v[n] for n in first])
        total = ops.sum([ops.reduce_sum(g * g, keepdims=False) for g in gradients])
        second = {chosen: opstep.gradients(total, [v[n] for n in chosen]) for chosen in SOME}
    rng = np.random.default_rng(0)
    feed = {n: rng.uniform(0.5, 1, v[n].shape) for n in ALL}
    exe = opstep.Executor()
    run = lambda feed, fetch: exe.run(program, feed, fetch, scope=opstep.Scope())  # noqa: E731
    for chosen, made in second.items():
        for name, got in zip(chosen, run(feed, made), strict=True):
            along = rng.uniform(-1, 1, v[name].shape)
            ends = [run(feed | {name: feed[name] + h * along}, [total])[0] for h in (1e-6, -1e-6)]
            np.testing.assert_allclose(
                (got * along).sum(), (ends[0] - ends[1]).item() / 2e-6, rtol=1e-5, atol=1e-7
            )
