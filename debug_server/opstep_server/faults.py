"""Fault filters: which NaN, Inf, overflow and errors stop."""

from __future__ import annotations

import math
from collections.abc import Sequence

from opstep_server import expr
from opstep_server.model import DebuggerError, FaultSpec
from opstep_server.wire import debug_pb2 as pb

_KINDS = {
    "nan": pb.FAULT_NAN,
    "inf": pb.FAULT_INF,
    "overflow": pb.FAULT_OVERFLOW,
    "error": pb.FAULT_ERROR,
}


class Faults:
    """The filters of one user, and what each executor says about them."""

    def __init__(self) -> None:
        self._errors: list[str] = []
        # The index in the list of each filter that is sent.
        self._sent: list[int] = []
        self._message = pb.SetFaultFilters()
        self._told: dict[int, list[str]] = {}

    def replace(self, specs: Sequence[FaultSpec]) -> None:
        filters: list[pb.FaultFilter] = []
        self._errors, self._sent, self._told = [], [], {}
        for index, spec in enumerate(specs):
            try:
                filters.append(_to_wire(spec))
            except DebuggerError as error:
                self._errors.append(str(error))
            else:
                self._errors.append("")
                self._sent.append(index)
        self._message = pb.SetFaultFilters(filters=filters)

    def replace_wire(self, filters: pb.SetFaultFilters) -> None:
        """Takes a guest's filters, which come in the form that executors get."""
        count = len(filters.filters)
        self._errors, self._sent, self._told = [""] * count, list(range(count)), {}
        self._message = filters

    def message(self) -> pb.SetFaultFilters:
        return self._message

    @property
    def problems(self) -> list[str]:
        """A sentence for each filter that cannot be used, "" for the others."""
        problems = list(self._errors)
        for told in self._told.values():
            for index, message in zip(self._sent, told, strict=False):
                problems[index] = problems[index] or message
        return problems

    def report(self, executor: int, messages: Sequence[str]) -> bool:
        """Takes an executor's answer; True when that changed something."""
        before = self.problems
        self._told[executor] = list(messages)
        return self.problems != before

    def forget(self, executor: int) -> None:
        self._told.pop(executor, None)


class SharedFaults:
    """The filters of all users; executors get one list."""

    def __init__(self) -> None:
        self._by_user: dict[str, Faults] = {}

    def of(self, user: str) -> Faults:
        return self._by_user.setdefault(user, Faults())

    def drop(self, user: str) -> None:
        self._by_user.pop(user, None)

    def message(self) -> pb.SetFaultFilters:
        lists = (faults.message().filters for faults in self._by_user.values())
        return pb.SetFaultFilters(filters=[one for filters in lists for one in filters])

    def report(self, executor: int, messages: Sequence[str]) -> list[str]:
        """Takes an executor's answer to that list; returns the users for whom something changed."""
        changed, start = [], 0
        for user, faults in self._by_user.items():
            end = start + len(faults.message().filters)
            if faults.report(executor, messages[start:end]):
                changed.append(user)
            start = end
        return changed

    def refuse(self, executor: int, message: str) -> None:
        """The executor accepts none of the filters."""
        for faults in self._by_user.values():
            faults.report(executor, [message] * len(faults.message().filters))

    def forget(self, executor: int) -> None:
        for faults in self._by_user.values():
            faults.forget(executor)


def _to_wire(spec: FaultSpec) -> pb.FaultFilter:
    if spec.kind not in _KINDS:
        raise DebuggerError(f"there is no fault '{spec.kind}': use {', '.join(_KINDS)}")
    if spec.limit is not None and spec.kind != "overflow":
        raise DebuggerError(f"a limit belongs to overflow, not to {spec.kind}")
    wire = pb.FaultFilter(kind=_KINDS[spec.kind], ops=spec.ops)
    if spec.limit is not None:
        if not (math.isfinite(spec.limit) and spec.limit > 0):
            raise DebuggerError(
                f"{spec.limit} is not a limit: write a number above 0, such as 65504"
            )
        wire.limit = spec.limit
    if spec.condition:
        try:
            wire.condition.CopyFrom(expr.parse(spec.condition))
        except expr.ExprError as error:
            raise DebuggerError(f"the condition cannot be used: {error}") from error
        wire.condition_text = spec.condition
    return wire
