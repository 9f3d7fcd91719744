"""Every op of the registry in both modes: the same bits, of values and of gradients."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from harness.op_programs import CASES, Built
from harness.samples import Case, is_float
from opstep import imperative, layers, ops

GRADIENT_CASES = [
    case
    for case in CASES
    if case.schema["has_grad"]
    and not case.special
    and any(is_float(arrays[0].dtype) for arrays in case.inputs.values())
    and is_float(case.expected()[0].dtype)
]


Values = list[imperative.Value]


def run_now(case: Case, wanted: list[str]) -> tuple[Values, dict[str, Values]]:
    """The op's outputs, and its inputs by slot; gradients flow to those in `wanted`."""
    inputs = {
        slot: [imperative.to_variable(array, stop_gradient=slot not in wanted) for array in arrays]
        for slot, arrays in case.inputs.items()
    }
    variadic = {slot["name"] for slot in case.schema["inputs"] if slot["variadic"]}
    given = {s: v if s in variadic else v[0] for s, v in inputs.items()}
    asked = {slot: f"{slot}_out" for slot in case.wanted}
    made = getattr(ops, case.type)(**given, **asked, **case.attrs)
    return (list(made) if isinstance(made, tuple) else [made]), inputs


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_values(case: Case) -> None:
    built = Built(case)
    expected = built.run(built.outputs)
    with imperative.guard():
        outputs, _ = run_now(case, [])
    for got, value in zip(outputs, expected, strict=True):
        assert_same_bits(got.numpy(), value)


def compiled_gradients(case: Case, slots: list[str], weights: np.ndarray) -> dict[str, np.ndarray]:
    """The gradients of sum(weights * first output), by variable, that append_backward gives."""
    built = Built(case)
    variables = [variable for slot in slots for variable in built.inputs[slot]]
    with opstep.program_guard(built.program):
        for variable in variables:
            variable.stop_gradient = False
        factor = layers.constant(weights, dtype=str(weights.dtype))
        loss = ops.reduce_sum(ops.mul(built.outputs[0], factor), keepdims=False)
        pairs = opstep.append_backward(loss, variables)
    values = built.run([gradient for _, gradient in pairs])
    return {variable.name: value for (variable, _), value in zip(pairs, values, strict=True)}


def refused_now(case: Case, slots: list[str], weights: np.ndarray) -> str:
    """What is said of an op that has no gradient with these attributes, without the line."""
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        outputs, _ = run_now(case, slots)
        ops.reduce_sum(outputs[0] * imperative.to_variable(weights), keepdims=False).backward()
    return str(error.value).split(" (")[0]


@pytest.mark.parametrize("case", GRADIENT_CASES, ids=lambda case: case.label)
def test_gradients(case: Case) -> None:
    slots = [slot for slot, arrays in case.inputs.items() if is_float(arrays[0].dtype)]
    value = case.expected()[0]
    weights = np.asarray(np.random.default_rng(1).uniform(-1, 1, value.shape)).astype(value.dtype)
    try:
        expected = compiled_gradients(case, slots, weights)
    except opstep.Error as error:
        if "does not depend on" not in str(error):
            assert refused_now(case, slots, weights) == str(error).split(" (")[0]
            return
        # No gradient flows to one of the slots: only to the others, then.
        slots = [slot for slot in slots if f"'{slot}_0'" not in str(error)]
        expected = compiled_gradients(case, slots, weights)
    with imperative.guard():
        outputs, inputs = run_now(case, slots)
        loss = ops.reduce_sum(outputs[0] * imperative.to_variable(weights), keepdims=False)
        loss.backward()
    for slot in slots:
        for number, leaf in enumerate(inputs[slot]):
            assert leaf.gradient is not None
            assert_same_bits(leaf.gradient.numpy(), expected[f"{slot}_{number}"])


def test_there_are_enough_cases() -> None:
    assert len(CASES) > 5000
    assert len(GRADIENT_CASES) > 1000
