"""The samples of every op, and programs that hold just one of them."""

from __future__ import annotations

import numpy as np

import opstep
from harness.samples import Case, Schema, cases
from opstep import layers, ops

SCHEMAS: list[Schema] = opstep._core.ops()
CASES = [case for schema in SCHEMAS for case in cases(schema)]


class Built:
    """A program with only this op, whose inputs are fed."""

    def __init__(self, case: Case, unknown: str = "") -> None:
        self.program = opstep.Program()
        self.feed: dict[str, np.ndarray] = {}
        self.inputs: dict[str, list[opstep.Variable]] = {}
        with opstep.program_guard(self.program, opstep.Program()):
            for slot, arrays in case.inputs.items():
                self.inputs[slot] = [
                    self._data(f"{slot}_{i}", a, unknown, case.fixed[slot][i])
                    for i, a in enumerate(arrays)
                ]
            variadic = {slot["name"] for slot in case.schema["inputs"] if slot["variadic"]}
            given = {s: v if s in variadic else v[0] for s, v in self.inputs.items()}
            asked = {slot: f"{slot}_out" for slot in case.wanted}
            made = getattr(ops, case.type)(**given, **asked, **case.attrs)
        self.outputs: list[opstep.Variable] = list(made) if isinstance(made, tuple) else [made]

    def _data(self, name: str, array: np.ndarray, unknown: str, fixed: set[int]) -> opstep.Variable:
        axes = {"": 0, "batch": 1, "all": array.ndim}[unknown]
        shape = [n if i >= axes or i in fixed else None for i, n in enumerate(array.shape)]
        self.feed[name] = array
        return layers.data(name, shape=shape, dtype=str(array.dtype))

    def run(self, fetches: list[opstep.Variable]) -> list[np.ndarray]:
        return opstep.Executor().run(
            self.program, feed=self.feed, fetch_list=fetches, scope=opstep.Scope()
        )
