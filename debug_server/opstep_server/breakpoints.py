"""The list of all breakpoints: the owner of each, and its status in each executor."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from opstep_server import expr, hit_conditions, log_messages
from opstep_server.model import (
    BlockWhere,
    BreakpointSpec,
    BreakpointState,
    DataWhere,
    DebuggerError,
    ListingWhere,
    OpWhere,
    PatternWhere,
    SourceWhere,
    Where,
)
from opstep_server.wire import debug_pb2 as pb

# The first id of hidden places that end a step; breakpoints of users count from 1.
FIRST_AIM = 1 << 31
# Removed log points that are remembered, for lines that they wrote before.
MAX_REMOVED = 1000


@dataclass(frozen=True)
class _Parsed:
    """The texts of a spec, parsed."""

    condition: pb.Expr | None = None
    hits: pb.HitCondition | None = None
    log: log_messages.MessageTemplate | None = None


@dataclass(eq=False)
class _Entry:
    state: BreakpointState
    owner: str
    parsed: _Parsed
    # Why a part of it cannot be used; such a breakpoint is not sent.
    error: str = ""
    # Why it was not bound in an executor that is gone.
    last: str = ""
    # By executor.
    statuses: dict[int, pb.BreakpointStatus] = field(default_factory=dict)
    # The thread that was sent to it; 0 for a user's own breakpoint.
    thread: int = 0
    # Of a guest: the message as it came, with the guest's own number.
    wire: pb.Breakpoint | None = None


class Breakpoints:
    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._removed: dict[int, _Entry] = {}
        self._last_id = 0
        self._last_aim = FIRST_AIM - 1

    def of(self, user: str) -> list[BreakpointState]:
        """The breakpoints whose owner begins with this text."""
        mine = (e for e in self._entries.values() if e.owner.startswith(user))
        return [entry.state for entry in mine if not entry.thread]

    def owner(self, id: int) -> str:
        return self._entries[id].owner if id in self._entries else ""

    def drop(self, user: str) -> None:
        for id in [id for id, e in self._entries.items() if e.owner.startswith(user)]:
            del self._entries[id]

    def state(self, id: int) -> BreakpointState:
        return self._entry(id).state

    def message(self, executor: int, there: Collection[int]) -> pb.SetBreakpoints:
        """The message with all breakpoints of one connected executor."""

        def is_for_it(where: Where) -> bool:
            if not isinstance(where, OpWhere) or where.executor in (0, executor):
                return True
            # A program that was started again is another executor.
            return where.executor not in there and len(there) == 1

        wanted = (e for e in self._entries.values() if e.state.spec.enabled and not e.error)
        mine = (entry for entry in wanted if is_for_it(entry.state.spec.where))
        return pb.SetBreakpoints(breakpoints=[_to_wire(entry) for entry in mine])

    def add(self, owner: str, spec: BreakpointSpec) -> BreakpointState:
        """Raises DebuggerError when the condition, hit condition or log message is wrong."""
        return self._insert(owner, spec, _parse(spec)).state

    def replace(self, owner: str, specs: Sequence[BreakpointSpec]) -> list[BreakpointState]:
        """Replaces all breakpoints of the owner; a state's message says what is wrong with it."""
        old: dict[str, list[_Entry]] = {}
        for before in self._entries.values():
            if before.owner == owner:
                old.setdefault(repr(before.state.spec), []).append(before)
        states = []
        for spec in specs:
            if same := old.get(repr(spec)):
                states.append(same.pop(0).state)
                continue
            wrong = _wrong(spec)
            entry = self._insert(owner, spec, _Parsed() if wrong else _parse(spec))
            entry.error = wrong
            _refresh(entry)
            states.append(entry.state)
        for gone in itertools.chain(*old.values()):
            self._delete(gone)
        return states

    def replace_wire(
        self, owner: str, executor: int, wanted: Sequence[pb.Breakpoint]
    ) -> dict[int, int]:
        """Replaces a guest's breakpoints in one executor; returns the guest's numbers by ours."""
        old = {e.wire.id: e for e in self._entries.values() if e.owner == owner and e.wire}
        names = {}
        for wire in wanted:
            spec = BreakpointSpec(OpWhere(0, 0, executor), temporary=wire.temporary)
            entry = old.pop(wire.id, None) or self._insert(owner, spec, _Parsed())
            entry.wire = wire
            names[entry.state.id] = wire.id
        for gone in old.values():
            self._delete(gone)
        return names

    def wire_statuses(self, owner: str, executor: int, id: int = 0) -> list[pb.BreakpointStatus]:
        """The executor's statuses of all breakpoints of the guest, or of one."""
        statuses = []
        for entry in self._entries.values():
            status = entry.statuses.get(executor)
            if entry.owner == owner and entry.wire and status and id in (0, entry.state.id):
                copy = pb.BreakpointStatus()
                copy.CopyFrom(status)
                copy.id = entry.wire.id
                statuses.append(copy)
        return statuses

    def aim(
        self, owner: str, thread: int, specs: Sequence[BreakpointSpec]
    ) -> list[BreakpointState]:
        """Adds places for one thread, until its next stop; users do not see them as breakpoints."""
        self.forget_aims(thread)
        entries = []
        for spec in specs:
            entry = self._insert(owner, replace(spec, temporary=True), _parse(spec), thread)
            entries.append(entry.state)
        return entries

    def forget_aims(self, thread: int) -> bool:
        """Returns whether there were some."""
        aims = [id for id, entry in self._entries.items() if entry.thread == thread]
        for id in aims:
            del self._entries[id]
        return bool(aims)

    def remove(self, id: int) -> BreakpointState:
        entry = self._entry(id)
        self._delete(entry)
        return entry.state

    def _delete(self, entry: _Entry) -> None:
        del self._entries[entry.state.id]
        if entry.parsed.log is not None or entry.wire is not None:
            self._removed[entry.state.id] = entry
            if len(self._removed) > MAX_REMOVED:
                del self._removed[next(iter(self._removed))]

    def update(self, id: int, spec: BreakpointSpec) -> BreakpointState:
        entry = self._entry(id)
        entry.parsed = _parse(spec)
        entry.error = entry.last = ""
        if bool(spec.log_message) != bool(entry.state.spec.log_message):
            entry.state.hits = 0  # It counts lines now instead of stops, or stops instead of lines.
        entry.state.spec = spec
        if not spec.enabled:
            entry.statuses.clear()
        _refresh(entry)
        return entry.state

    def report(self, executor: int, status: pb.BreakpointStatus) -> BreakpointState | None:
        """Takes an executor's status; returns the state if that changed it."""
        entry = self._entries.get(status.id)
        if entry is None or not entry.state.spec.enabled:
            return None  # It was removed while the message was on its way.
        entry.statuses[executor] = status
        return entry.state if _refresh(entry) else None

    def forget(self, executor: int) -> list[BreakpointState]:
        """The executor is gone; returns the states that changed."""
        changed = []
        for entry in self._entries.values():
            status = entry.statuses.pop(executor, None)
            if status is None:
                continue
            entry.last = "" if status.verified else status.message
            if _refresh(entry):
                changed.append(entry.state)
        return changed

    def hit(self, id: int, times: int = 1) -> BreakpointState | None:
        entry = self._entries.get(id)
        if entry is None:
            return None
        entry.state.hits += times
        return entry.state

    def log_owner(self, id: int) -> str:
        """The owner of the log point, also after its removal: its lines may come later."""
        entry = self._entries.get(id) or self._removed.get(id)
        return entry.owner if entry is not None else ""

    def log_text(self, record: pb.LogRecord) -> str:
        id = record.breakpoint
        entry = self._entries.get(id) or self._removed.get(id)
        template = entry.parsed.log if entry is not None else None
        return (template or log_messages.MessageTemplate()).text(record.parts)

    def _entry(self, id: int) -> _Entry:
        if id not in self._entries:
            raise DebuggerError(f"there is no breakpoint {id}")
        return self._entries[id]

    def _insert(self, owner: str, spec: BreakpointSpec, parsed: _Parsed, thread: int = 0) -> _Entry:
        if thread:
            id = self._last_aim = self._last_aim + 1
        else:
            id = self._last_id = self._last_id + 1
        # A copy, so that the caller's later changes of the spec have no effect here.
        entry = _Entry(BreakpointState(id, replace(spec)), owner, parsed, thread=thread)
        self._entries[id] = entry
        _refresh(entry)
        return entry


def _parse(spec: BreakpointSpec) -> _Parsed:
    return _Parsed(
        expr.parse(spec.condition) if spec.condition else None,
        hit_conditions.parse(spec.hit_condition) if spec.hit_condition else None,
        log_messages.parse(spec.log_message) if spec.log_message else None,
    )


def _wrong(spec: BreakpointSpec) -> str:
    """Names the text that cannot be used, and why; empty when all can."""
    parts: tuple[tuple[str, str | None, Callable[[str], object]], ...] = (
        ("condition", spec.condition, expr.parse),
        ("hit condition", spec.hit_condition, hit_conditions.parse),
        ("log message", spec.log_message, log_messages.parse),
    )
    for part, text, parse in parts:
        try:
            if text:
                parse(text)
        except DebuggerError as error:
            return f"the {part} cannot be used: {error}"
    return ""


def _refresh(entry: _Entry) -> bool:
    """Updates the state from the statuses; True when it changed."""
    state = entry.state
    bound = [s for s in entry.statuses.values() if s.verified]
    told = bound or list(entry.statuses.values())
    if entry.error:
        message = entry.error
    elif not state.spec.enabled:
        message = "disabled"
    else:
        message = next((s.message for s in told if s.message), "")
        if not message and not bound:
            message = entry.last or _pending(state.spec)
    first = bound[0].first if bound and bound[0].HasField("first") else None
    new = (bool(bound), message, sum(s.op_count for s in bound), first)
    if new == (state.verified, state.message, state.op_count, state.first):
        return False
    state.verified, state.message, state.op_count, state.first = new
    return True


def _pending(spec: BreakpointSpec) -> str:
    where = spec.where
    if isinstance(where, SourceWhere):
        return f"no op was made on line {where.line} of {os.path.basename(where.file)} yet"
    if isinstance(where, ListingWhere) and not where.program_name:
        return f"no program has an op on line {where.line} of its listing yet"
    if isinstance(where, ListingWhere):
        return f"program '{where.program_name}' has no op on line {where.line} yet"
    if isinstance(where, PatternWhere):
        kind = "gradient" if where.pattern.startswith("grad:") else "op"
        return f"no {kind} matches '{where.pattern.removeprefix('grad:')}' yet"
    if isinstance(where, DataWhere):
        return f"no op writes '{where.variable}' yet"
    if isinstance(where, BlockWhere):
        number = where.block.isdecimal()
        whose = f"{where.block}" if number else f"of an op that matches '{where.block}'"
        return f"there is no block {whose} yet"
    if not where.program:
        return f"no program has an op #{where.op} yet"
    program = f"'{where.program_name}'" if where.program_name else where.program
    return f"program {program} has no op #{where.op} yet"


def _to_wire(entry: _Entry) -> pb.Breakpoint:
    if entry.wire is not None:
        copy = pb.Breakpoint()
        copy.CopyFrom(entry.wire)
        copy.id = entry.state.id
        return copy
    spec = entry.state.spec
    message = pb.Breakpoint(id=entry.state.id, gradients=spec.gradients, temporary=spec.temporary)
    where = spec.where
    if isinstance(where, SourceWhere):
        message.line.CopyFrom(pb.SourceLine(file=where.file, line=where.line))
    elif isinstance(where, ListingWhere):
        message.listing.CopyFrom(pb.ListingLine(program_name=where.program_name, line=where.line))
    elif isinstance(where, PatternWhere):
        message.pattern = where.pattern
    elif isinstance(where, DataWhere):
        message.data.CopyFrom(pb.DataWritten(variable=where.variable, changed=where.changed))
    elif isinstance(where, BlockWhere):
        message.pattern = f"block:{where.block}"
    else:
        message.op.CopyFrom(pb.OpRef(program=where.program, op=where.op))
    parsed = entry.parsed
    if parsed.condition is not None:
        message.condition.CopyFrom(parsed.condition)
        message.condition_text = spec.condition or ""
    if parsed.hits is not None:
        message.hits.CopyFrom(parsed.hits)
    if parsed.log is not None:
        message.log.CopyFrom(parsed.log.message())
    return message
