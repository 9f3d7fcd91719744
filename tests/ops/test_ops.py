"""Every op of the registry against its NumPy oracle: values, shapes, dtypes and gradients.

Nothing here names an op: a new op is tested as soon as it is registered with an oracle and samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opstep
from harness.op_programs import CASES, SCHEMAS, Built
from harness.samples import Case, Schema
from opstep import layers, ops

# With a gradient to check: in float64, and the oracle's first output moves with the input.
GRADIENT_CASES = [
    case
    for case in CASES
    if case.schema["has_grad"]
    and not case.special
    and case.expected()[0].dtype.kind == "f"
    and any(arrays[0].dtype == np.float64 for arrays in case.inputs.values())
]
# With 16-bit floats and a gradient: two for each op.
NARROW_GRADIENT_CASES = [
    case
    for schema in SCHEMAS
    if schema["has_grad"]
    for dtype in ("float16", "bfloat16")
    for case in [
        case
        for case in CASES
        if case.schema is schema and not case.special and f"({dtype})" in case.label
    ][:2]
]
# Of the 16-bit floats: one unit in the last place.
TOLERANCE = {
    "float32": (1e-5, 1e-6),
    "float64": (1e-12, 1e-13),
    "float16": (2**-10, 1e-6),
    "bfloat16": (2**-7, 1e-6),
}

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
# The narrow dtypes run the kernels of wider ones, which are covered.
each_wide_case = pytest.mark.parametrize(
    "case", [case for case in CASES if not case.is_narrow], ids=lambda case: case.label
)


def assert_close(got: np.ndarray, expected: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    rtol, atol = TOLERANCE.get(str(got.dtype), (0, 0))
    if str(got.dtype) == "bfloat16":
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)


@each_case
def test_values(case: Case) -> None:
    built = Built(case)
    expected = case.expected()
    for variable, value in zip(built.outputs, expected, strict=True):
        assert (variable.dtype, variable.shape) == (str(value.dtype), value.shape)
    for got, value in zip(built.run(built.outputs), expected, strict=True):
        assert_close(got, value)


@each_wide_case
@pytest.mark.parametrize("unknown", ["batch", "all"])
def test_sizes_known_only_at_run_time(case: Case, unknown: str) -> None:
    if not any(array.ndim for arrays in case.inputs.values() for array in arrays):
        return
    built = Built(case, unknown)
    expected = case.expected()
    for variable, value in zip(built.outputs, expected, strict=True):
        assert variable.dtype == str(value.dtype)
        assert len(variable.shape) == value.ndim
        wrong = [
            (a, b) for a, b in zip(variable.shape, value.shape, strict=True) if a not in (None, b)
        ]
        assert not wrong
    for got, value in zip(built.run(built.outputs), expected, strict=True):
        assert_close(got, value)


@pytest.mark.parametrize("case", GRADIENT_CASES, ids=lambda case: case.label)
def test_gradients(case: Case) -> None:
    slots = [slot for slot, arrays in case.inputs.items() if arrays[0].dtype == np.float64]
    value = case.expected()[0]
    weights = np.asarray(np.random.default_rng(1).uniform(-1, 1, value.shape)).astype(value.dtype)
    # All gradients at once, then each alone: a kernel must leave out what nobody wants.
    wanted = [slots] + ([[slot] for slot in slots] if len(slots) > 1 else [])
    numeric = {slot: numeric_gradients(case, slot, weights) for slot in slots}
    for chosen in wanted:
        fetched = iter(gradients_of(case, chosen, weights))
        tolerance = 1e-6 if value.dtype == np.float64 else 2e-2
        for slot in chosen:
            for array, expected in zip(case.inputs[slot], numeric[slot], strict=True):
                got = next(fetched)
                assert (got.dtype, got.shape) == (array.dtype, array.shape)
                np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def gradients_of(case: Case, slots: list[str], weights: np.ndarray) -> list[np.ndarray]:
    """The gradients of sum(weights * first output) for each variable in the slots."""
    built = Built(case)
    variables = [variable for slot in slots for variable in built.inputs[slot]]
    with opstep.program_guard(built.program):
        factor = layers.constant(weights, dtype=str(weights.dtype))
        loss = ops.reduce_sum(ops.mul(built.outputs[0], factor), keepdims=False)
        for variable in variables:
            variable.stop_gradient = False
        pairs = opstep.append_backward(loss, variables)
    gradients = {variable.name: gradient for variable, gradient in pairs}
    return built.run([gradients[variable.name] for variable in variables])


@pytest.mark.parametrize("case", NARROW_GRADIENT_CASES, ids=lambda case: case.label)
def test_gradients_of_16_bit_floats(case: Case) -> None:
    dtype = np.dtype(case.label.rsplit("(")[-1].rstrip(")"))
    value = case.expected()[0]
    if value.dtype != dtype or not np.isfinite(value.astype(np.float32)).all():
        return
    slots = [slot for slot, arrays in case.inputs.items() if arrays[0].dtype == dtype]
    weights = np.asarray(np.random.default_rng(1).uniform(-1, 1, value.shape)).astype(dtype)
    expected = gradients_of(case.in_dtype(np.float32), slots, weights.astype(np.float32))
    for got, wide in zip(gradients_of(case, slots, weights), expected, strict=True):
        assert got.dtype == dtype
        # The output that the gradient is computed from was rounded too.
        unit = TOLERANCE[str(dtype)][0] * np.abs(wide).max(initial=1e-3)
        np.testing.assert_allclose(got.astype(np.float32), wide, rtol=0, atol=4 * unit)


def numeric_gradients(case: Case, slot: str, weights: np.ndarray) -> list[np.ndarray]:
    """Central differences of sum(weights * oracle) for each variable in a slot."""
    step = 1e-6 if weights.dtype == np.float64 else 1e-2
    gradients = []
    for number, array in enumerate(case.inputs[slot]):
        gradient = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in case.inputs[slot]]
                moved[number][index] += sign * step
                ends.append(case.expected(**{slot: moved})[0].astype(np.float64))
            gradient[index] = ((ends[0] - ends[1]) * weights).sum() / (2 * step)
        gradients.append(gradient)
    return gradients


def test_the_registry_is_not_empty() -> None:
    assert len(SCHEMAS) > 40
    assert len(GRADIENT_CASES) > 100


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["type"])
def test_every_op_is_documented_and_tested(schema: Schema) -> None:
    assert schema["doc"].endswith("."), "the doc is a sentence"
    undocumented = [x["name"] for x in _parts(schema) if not x["doc"]]
    assert not undocumented
    if schema["own_test"] or _is_gradient(schema):
        return
    assert schema["oracle"], "an oracle is missing"
    assert len(schema["samples"]) >= 2, "at least two samples are needed"


def _parts(schema: Schema) -> list[dict[str, Any]]:
    return [*schema["inputs"], *schema["outputs"], *schema["attrs"]]


def _is_gradient(schema: Schema) -> bool:
    """Made by the gradient rule of another op, and tested through it."""
    forward = schema["type"].removesuffix("_grad")
    return forward != schema["type"] and any(
        other["type"] == forward and other["has_grad"] for other in SCHEMAS
    )
