"""`opstep run --set NAME=VALUE`: new values for a program's settings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opstep import _core
from opstep._core import Error
from opstep.executor import Executor, Scope
from opstep.model import _persistables
from opstep.program import Program
from opstep.variable import Variable, type_text


def settings(program: Program) -> list[str]:
    """Numbers that the program reads and never changes, such as a learning rate."""
    own = changed(program)
    return [v.name for v in _persistables(program) if v.shape == () and v.name not in own]


def changed(program: Program) -> set[str]:
    """Variables that the program writes, except for first values."""
    once = [op for op in program.global_block().ops if _fills(program, op.outputs)]
    inside = {op.attrs["block"] for op in once}
    names: set[str] = set()
    for block in program.blocks:
        if block.index in inside:
            continue
        for op in block.ops:
            if op not in once:
                names.update(name for slot in op.outputs.values() for name in slot)
    return names


def fill(program: Program, scope: Scope) -> None:
    """Give variables now the first values that a merged program gives them in its first run."""
    flags = program._core.once_flags()
    if flags and not all(flag in scope for flag in flags):
        Executor().run(program.prune(flags, name=f"{program.name}_startup"), scope=scope)


def apply(
    program: Program, scope: Scope, given: Sequence[tuple[str, str]], resumed: bool = False
) -> None:
    """Set the variables. Those that the program changes itself are set when a training starts, not
    when it resumes."""
    own = changed(program) if resumed else set()
    for name, text in given:
        variable = _find(program, name)
        if name not in own:
            scope.set(name, _value(variable, text))


def _fills(program: Program, outputs: dict[str, list[str]]) -> bool:
    flags = program._core.once_flags()
    return any(name in flags for names in outputs.values() for name in names)


def _find(program: Program, name: str) -> Variable:
    kept = {variable.name: variable for variable in _persistables(program)}
    if name in kept:
        return kept[name]
    near = _core.nearest(name, list(kept))
    hint = f"; did you mean '{near}'?" if near else ""
    known = ", ".join(settings(program)) or "none"
    raise Error(f"program '{program.name}' has no setting '{name}' (it has {known}){hint}")


def _value(variable: Variable, text: str) -> np.ndarray:
    """One number for all elements, or one for each with commas between them."""
    kind = _core.numpy_dtype(variable.dtype)
    sizes = [size or 0 for size in variable.shape]
    parse = {"bool": _bool}.get(variable.dtype, float if "float" in variable.dtype else int)
    try:
        numbers = np.array([parse(part) for part in text.split(",")], kind)
    except (ValueError, OverflowError):
        raise Error(f"--set {variable.name}={text}: it is {type_text(variable)}") from None
    if numbers.size != 1 and numbers.size != np.prod(sizes):
        raise Error(
            f"--set {variable.name}: {numbers.size} numbers are given, but it is "
            f"{type_text(variable)}"
        )
    return np.full(sizes, numbers[0], kind) if numbers.size == 1 else numbers.reshape(sizes)


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError
    return text.lower() in ("true", "1")
