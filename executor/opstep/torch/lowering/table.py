"""The table of lowerings: ATen target → the function that says it in ops of opstep.

An entry is given an `OpBuilder` and the target's own arguments, with a `Value` for each tensor:

    @lowers(aten.relu.default)
    def relu(op: OpBuilder, x: Value) -> Value:
        return op.relu(x)

It gives the Value of the result, or a tuple of Values for a target with several results (None for
one that nobody uses). It raises `NotLowered` for arguments that it does not handle exactly; then,
and when an op refuses its inputs or the result has not the dtype and shape that torch says, the
target becomes a foreign op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from opstep.torch.refusals import NotLowered

Lowering = Callable[..., Any]
_Entry = TypeVar("_Entry", bound=Lowering)

_table: dict[Any, Lowering] = {}


def lowers(*targets: Any) -> Callable[[_Entry], _Entry]:
    """Enters the function below for these targets."""

    def enter(entry: _Entry) -> _Entry:
        for target in targets:
            if target in _table:
                raise ValueError(f"{target} has a lowering already")
            _table[target] = entry
        return entry

    return enter


def lowering_of(target: Any) -> Lowering | None:
    """The entry for a target, or None."""
    return _table.get(target)


def targets() -> list[Any]:
    """All targets that have an entry."""
    return list(_table)


def require(condition: Any, reason: str) -> None:
    """The target becomes a foreign op unless the condition holds."""
    if not condition:
        raise NotLowered(reason)


def wanted_results(made: Any, wanted: Sequence[bool]) -> list[Any]:
    """The results at their places, None for those that are not wanted."""
    given = iter(made if isinstance(made, tuple) else (made,))
    return [next(given) if want else None for want in wanted]
