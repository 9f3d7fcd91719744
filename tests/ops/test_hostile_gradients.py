"""Gradient ops as a hostile program file could hold them: an input of another shape or missing.

Each op is differentiated in one of its samples; then one input of its gradient op is replaced. A
process of its own does it, so that a crash is seen as one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import opstep
from harness.processes import run_file
from harness.samples import Case, cases
from opstep import layers, ops
from opstep_server.wire import program_pb2

SECONDS = 300


def differentiated(case: Case) -> tuple[program_pb2.ProgramDesc, dict[str, np.ndarray]] | None:
    program, feed = opstep.Program(), {}
    with opstep.program_guard(program, opstep.Program()):
        given: dict[str, Any] = {}
        for slot in case.schema["inputs"]:
            arrays = case.inputs.get(slot["name"], [])
            made = []
            for i, array in enumerate(arrays):
                feed[f"{slot['name']}_{i}"] = array
                made.append(layers.data(f"{slot['name']}_{i}", array.shape, str(array.dtype)))
                made[-1].stop_gradient = array.dtype.kind != "f"
            if made:
                given[slot["name"]] = made if slot["variadic"] else made[0]
        result = getattr(ops, case.type)(**given, **case.attrs)
        first = result[0] if isinstance(result, tuple) else result
        wanted = [
            v for item in given.values() for v in (item if isinstance(item, list) else [item])
        ]
        wanted = [v for v in wanted if not v.stop_gradient]
        if not wanted or not first.dtype.startswith("float"):
            return None
        try:
            opstep.append_backward(ops.reduce_sum(first, keepdims=False), wanted)
        except opstep.Error:
            return None
    return program_pb2.ProgramDesc.FromString(program.to_bytes()), feed


def shapes(dims: list[int]) -> Iterator[list[int]]:
    rank = max(len(dims), 1)
    yield from ([], [1] * rank, [0] * rank, [300_000], [size + 1 for size in dims])
    yield [max(size - 1, 1) for size in dims]
    if dims:
        yield [dims[0] * 30_000, *dims[1:]]
        yield [*dims[:-1], dims[-1] * 30_000]


def attempts(case: Case) -> Iterator[tuple[program_pb2.ProgramDesc, list[str], dict[str, Any]]]:
    built = differentiated(case)
    if built is None:
        return
    desc, feed = built
    variables = {var.name: var for var in desc.blocks[0].vars}
    forward = next(op.id for op in desc.blocks[0].ops if op.type == case.type)
    for index, op in enumerate(desc.blocks[0].ops):
        if op.forward_op != forward:
            continue
        results = [name for slot in op.outputs for name in slot.vars if name]
        for place, slot in enumerate(op.inputs):
            for number, name in enumerate(filter(None, slot.vars)):
                for dims in shapes(list(variables[name].dims)):
                    if dims == list(variables[name].dims) or np.prod(dims, dtype=float) > 3e6:
                        continue
                    changed = program_pb2.ProgramDesc()
                    changed.CopyFrom(desc)
                    var = changed.blocks[0].vars.add()
                    var.CopyFrom(variables[name])
                    var.name, var.persistable, var.parameter = "other", False, False
                    var.dims[:] = dims
                    changed.blocks[0].ops[index].inputs[place].vars[number] = "other"
                    kind = "uint16" if var.dtype == 4 else _numpy(var.dtype)
                    yield changed, results, feed | {"other": np.zeros(dims, kind)}
            missing = program_pb2.ProgramDesc()
            missing.CopyFrom(desc)
            del missing.blocks[0].ops[index].inputs[place]
            yield missing, results, feed


def _numpy(dtype: int) -> str:
    names = "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 bool"
    return names.split()[dtype - 1]


def main() -> None:
    tried = ran = 0
    for schema in opstep._core.ops():
        if schema["own_test"] or not schema["has_grad"]:
            continue
        fitting = (case for case in cases(schema) if not case.special and _plain(case))
        for case, _ in zip(fitting, range(2), strict=False):
            for desc, results, feed in attempts(case):
                tried += 1
                print(tried, case.label, file=sys.stderr)
                try:
                    program = opstep.Program.from_bytes(desc.SerializeToString())
                    opstep.Executor().run(program, feed, results, opstep.Scope())
                    ran += 1
                except opstep.Error:
                    pass
    print(f"{tried} tried, {ran} ran")
    assert 0 < ran < tried / 2


def _plain(case: Case) -> bool:
    floats = [a for arrays in case.inputs.values() for a in arrays if a.dtype.kind == "f"]
    return bool(floats) and all(a.dtype == np.float32 and a.size for a in floats)


def test_hostile_gradients() -> None:
    done = run_file(__file__, seconds=SECONDS)
    # The last line says what it was at.
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


if __name__ == "__main__":
    main()
