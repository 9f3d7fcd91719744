"""Attributes as a hostile program file could hold them: every op refuses them or runs, safely.

Each op's samples are tried with one attribute replaced. A process of its own does it, so that a
crash is seen as one, with little memory, so that sizes out of nowhere are seen too.
"""

from __future__ import annotations

import math
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import opstep
from harness.processes import run_file
from harness.samples import Case, cases
from opstep import layers, ops

SECONDS = 300
MEMORY = 3 << 30
NUMBERS = [-(2**63), -(2**31) - 1, -9, -1, 0, 1, 2, 5, 100, 2**31, 2**62, 2**63 - 1]
FLOATS = [math.nan, math.inf, -math.inf, -1.0, 0.0, 0.5, 1.0, 1e308, -1e-320]
WORDS = ["", "x", "same", "SAME_UPPER", "VALID", "add", "max", "reflect", "mean", "tanh"]


def replacements(kind: str, value: Any) -> Iterator[Any]:
    if kind == "int":
        yield from NUMBERS
    elif kind == "float":
        yield from FLOATS
    elif kind == "bool":
        yield not value
    elif kind == "string":
        yield from WORDS
    elif kind == "ints":
        old = list(value or [])
        yield from ([], [0], [1, 1], [-1], [-1] * 9, [2**62], [2**31, 2**31], [0] * 4, [1] * 8)
        for place in range(len(old)):
            for number in NUMBERS:
                yield [*old[:place], number, *old[place + 1 :]]
    elif kind == "floats":
        yield from ([], [math.nan], [1.0] * 9)
    elif kind == "strings":
        yield from ([], [""], ["a", "a"])
    elif kind == "dtype":
        yield from ("float64", "bool", "int8", "bfloat16")


def attempts(schema: dict[str, Any]) -> Iterator[tuple[Case, dict[str, Any]]]:
    chosen: list[Case] = []
    for case in cases(schema):
        # One dtype of each sample is enough.
        if not chosen or chosen[-1].label.split(" (")[0] != case.label.split(" (")[0]:
            chosen.append(case)
    for case in chosen:
        for attr in schema["attrs"]:
            value = case.attrs.get(attr["name"], attr["default"])
            for replaced in replacements(attr["type"], value):
                yield case, {**case.attrs, attr["name"]: replaced}


def attempt(case: Case, attrs: dict[str, Any]) -> bool:
    program, feed = opstep.Program(), {}
    with opstep.program_guard(program, opstep.Program()):
        given: dict[str, Any] = {}
        for slot in case.schema["inputs"]:
            for i, array in enumerate(case.inputs.get(slot["name"], ())):
                name = f"{slot['name']}_{i}"
                feed[name] = array
                made = layers.data(name, list(array.shape), str(array.dtype))
                if array.dtype.kind == "f":
                    made.stop_gradient = False
                given.setdefault(slot["name"], []).append(made)
            if not slot["variadic"] and slot["name"] in given:
                (given[slot["name"]],) = given[slot["name"]]
        try:
            made = getattr(ops, case.type)(**given, **attrs)
            outs = list(made) if isinstance(made, tuple) else [made]
            outs = [out for out in outs if isinstance(out, opstep.Variable)]
            wanted = [v for v in given.values() if isinstance(v, opstep.Variable)]
            wanted = [v for v in wanted if not v.stop_gradient]
            if case.schema["has_grad"] and wanted and outs[0].dtype.startswith("float"):
                loss = ops.reduce_sum(outs[0], keepdims=False)
                outs += [g for _, g in opstep.append_backward(loss, wanted)]
        except opstep.Error:
            return False
    try:
        opstep.Executor().run(program, feed=feed, fetch_list=outs, scope=opstep.Scope())
    except opstep.Error:
        return False
    return True


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    np.seterr(all="ignore")
    tried = ran = 0
    for schema in opstep._core.ops():
        if schema["own_test"]:
            continue
        for case, attrs in attempts(schema):
            print(case.label, attrs, file=sys.stderr)
            signal.alarm(20)  # a loop over a size out of nowhere
            tried += 1
            ran += attempt(case, attrs)
            signal.alarm(0)
    print(f"{tried} tried, {ran} ran")
    assert 0 < ran < tried


def test_hostile_attributes() -> None:
    done = run_file(__file__, seconds=SECONDS)
    # The last line says what it was at.
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


if __name__ == "__main__":
    main()
