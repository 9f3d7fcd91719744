"""Inspection of a stopped thread and of programs, and edits: one half of the debugger.

When a caller no longer waits, the executor drops the command too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from opstep_server import expr
from opstep_server.functions import hidden_name_note
from opstep_server.model import DebuggerError, ProgramRef, Thread
from opstep_server.roster import Roster
from opstep_server.wire import debug_pb2 as pb

_PAGE = 1000
# Bytes of a tensor in one message, and how many such messages are under way at a time.
_PIECE = 1 << 20
_UNDER_WAY = 4
# What an expression can name: x, self.w, X[1], grad(w). Other texts are a variable's own name.
_NAMED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[-?\d+\])*|grad\([\w.]+\)")
_OWN = re.compile(r"var\(([\"'])(?P<name>[^\"']+)\1\)")


class Meant(NamedTuple):
    """The variable that a name means; the program, when that is not the one of the frame."""

    variable: str
    program: ProgramRef | None = None


def own_name(text: str) -> str:
    """The name in `var("name")`; "" for other texts."""
    own = _OWN.fullmatch(text.strip())
    return own["name"] if own else ""


class Inspection:
    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        # By executor, program and version.
        self._ops: dict[tuple[int, int, int], list[pb.OpInfo]] = {}
        self._names: tuple[tuple[int, ...], pb.Names] | None = None
        self._given_up: set[asyncio.Task[None]] = set()

    # ---- a stopped thread ------------------------------------------------------------------------

    async def variables(
        self,
        thread_id: int,
        frame: int,
        scope: pb.ScopeKind,
        start: int = 0,
        count: int = 0,
        op: int = 0,
    ) -> pb.Variables:
        """The variables of the frame's op, block or run; or of another op of its program."""
        thread, stopped = self._roster.stopped(thread_id)
        wanted = pb.GetVariables(
            thread=thread.wire_id,
            stop=stopped.stop,
            frame=frame,
            scope=scope,
            start=start,
            count=count,
        )
        if op:
            wanted.op = op
        return (await self._look(thread, pb.Command(get_variables=wanted))).variables

    async def names(self, thread_id: int, frame: int, op: int = 0) -> pb.Names:
        """The names that expressions may use in the frame, or at that op."""
        thread, stopped = self._roster.stopped(thread_id)
        wanted = pb.ListNames(thread=thread.wire_id, stop=stopped.stop, frame=frame)
        if op:
            wanted.op = op
        return (await self._look(thread, pb.Command(list_names=wanted))).names

    async def variable_of(self, thread_id: int, frame: int, text: str, op: int = 0) -> Meant:
        """The variable that a typed name means in the frame, as it does in an expression.

        A variable of another program is found by its own name, if nothing here has that name.
        """
        own = own_name(text)
        name = own or text
        parsed = expr.parse(text) if _NAMED.fullmatch(text) else expr.variable(name)
        thread, stopped = self._roster.stopped(thread_id)
        wanted = pb.FindVariable(thread=thread.wire_id, stop=stopped.stop, frame=frame, expr=parsed)
        if op:
            wanted.op = op
        found = (await self._look(thread, pb.Command(find_variable=wanted))).found
        if found.variable:
            return Meant(found.variable)
        if not found.unknown:
            raise DebuggerError(f"{text} is not a whole variable of the program here")
        for program in self._roster.programs:
            if program.executor is not thread.executor:
                continue
            for each in await self.ops(program):
                if name in {made.name for made in each.outputs} | {
                    given.variable for given in each.inputs
                }:
                    return Meant(name, program)
        raise DebuggerError(found.unknown)

    async def hidden_names(
        self, thread_id: int, frame: int, expression: pb.Expr, op: int = 0
    ) -> list[pb.PythonName]:
        """Python's names in the expression that mean something else in this frame."""
        named = expr.names(expression)
        if not named:
            return []
        hidden = await self.all_hidden(thread_id, frame, op)
        return [each for each in hidden if _uses(named, each.name)]

    async def all_hidden(self, thread_id: int, frame: int, op: int = 0) -> list[pb.PythonName]:
        """Python's names of variables that mean something else in expressions in this frame."""
        return [each for each in (await self._names_of(thread_id, frame, op)).python if each.hidden]

    async def hidden_notes(
        self, thread_id: int, frame: int, text: str | pb.Expr, op: int = 0
    ) -> list[str]:
        """One sentence for each name in it that means another variable in Python."""
        hidden = await self.hidden_names(thread_id, frame, _parsed(text), op)
        return [hidden_name_note(each.name, each.variable or each.name) for each in hidden]

    async def slots_only(self, thread_id: int, frame: int, expression: pb.Expr) -> list[str]:
        """Names in the expression that hold no variable in Python, but are slots of the op."""
        named = expr.names(expression)
        if not named:
            return []
        names = await self._names_of(thread_id, frame, 0)
        return [each for each in names.slots_only if _uses(named, each)]

    async def _names_of(self, thread_id: int, frame: int, op: int) -> pb.Names:
        """The names of a frame, asked for once as long as the thread stays stopped."""
        thread, stopped = self._roster.stopped(thread_id)
        key = thread.executor.id, thread.wire_id, stopped.stop, frame, op
        if self._names is None or self._names[0] != key:
            self._names = key, await self.names(thread_id, frame, op)
        return self._names[1]

    async def evaluate(
        self,
        thread_id: int,
        frame: int,
        text: str | pb.Expr,
        *,
        max_elements: int = 0,
        start: int = 0,
        count: int = 0,
        op: int = 0,
    ) -> pb.Value:
        """The expression's value in the frame, or as if that op were the frame's.

        Raises ExprError when the text is wrong.
        """
        parsed = _parsed(text)
        thread, stopped = self._roster.stopped(thread_id)
        wanted = pb.Evaluate(
            thread=thread.wire_id,
            stop=stopped.stop,
            frame=frame,
            expr=parsed,
            max_elements=max_elements,
            start=start,
            count=count,
        )
        if op:
            wanted.op = op
        try:
            return (await self._look(thread, pb.Command(evaluate=wanted))).value
        except DebuggerError as error:
            # A slot that is not written yet may hide a variable that is.
            if thread.stopped is stopped and (
                notes := await self.hidden_notes(thread_id, frame, parsed, op)
            ):
                raise DebuggerError("; ".join([str(error), *notes])) from error
            raise

    async def assign(
        self,
        thread_id: int,
        frame: int,
        target: str | pb.Expr,
        value: str | pb.Expr,
        op: int = 0,
    ) -> pb.Value:
        """Assigns the value to a variable or a part of one; returns the target's new value."""
        into, what = _parsed(target), _parsed(value)
        thread, stopped = self._roster.stopped(thread_id)
        wanted = pb.Assign(
            thread=thread.wire_id, stop=stopped.stop, frame=frame, target=into, value=what
        )
        if op:
            wanted.op = op
        return (await self._look(thread, pb.Command(assign=wanted))).value

    async def read_bytes(
        self, thread_id: int, frame: int, text: str | pb.Expr, offset: int, count: int
    ) -> tuple[bytes, int]:
        """The existing bytes of the expression's value in that range, and the value's size."""
        pieces: dict[int, bytes] = {}
        total = await self._read(thread_id, frame, text, offset, count, pieces.__setitem__)
        return b"".join(pieces[start] for start in sorted(pieces)), total

    async def read_bytes_into(
        self,
        thread_id: int,
        frame: int,
        text: str | pb.Expr,
        offset: int,
        into: bytearray,
        op: int = 0,
    ) -> int:
        """read_bytes for large values: fills the given buffer; returns the value's size in bytes.

        A shorter value leaves the rest of the buffer as it is.
        """

        def take(start: int, data: bytes) -> None:
            into[start - offset : start - offset + len(data)] = data

        return await self._read(thread_id, frame, text, offset, len(into), take, op)

    async def _read(
        self,
        thread_id: int,
        frame: int,
        text: str | pb.Expr,
        offset: int,
        count: int,
        take: Callable[[int, bytes], None],
        op: int = 0,
    ) -> int:
        """Passes on the pieces as they come, each with its offset; returns the value's size."""
        parsed = _parsed(text)
        thread, stopped = self._roster.stopped(thread_id)
        end = offset + count

        async def piece(start: int) -> pb.Bytes:
            wanted = pb.ReadBytes(
                thread=thread.wire_id,
                stop=stopped.stop,
                frame=frame,
                expr=parsed,
                offset=start,
                count=min(end - start, _PIECE),
            )
            if op:
                wanted.op = op
            got = (await self._look(thread, pb.Command(read_bytes=wanted))).bytes
            take(start, got.data)
            return got

        first = await piece(offset)
        end = min(end, first.total)
        if first.data:
            await _some_at_a_time(piece, range(offset + len(first.data), end, _PIECE))
        return first.total

    async def write_bytes(
        self, thread_id: int, frame: int, target: str | pb.Expr, offset: int, data: bytes
    ) -> None:
        """Overwrites bytes of a variable or a part of one; all of them, or none."""
        into = _parsed(target)
        thread, stopped = self._roster.stopped(thread_id)
        if len(data) > _PIECE:
            # The executor checks each piece; the last must not fail after the first was written.
            _, total = await self.read_bytes(thread_id, frame, into, 0, 0)
            if offset + len(data) > total:
                raise DebuggerError(
                    f"bytes {offset} to {offset + len(data)} do not fit: there are {total}"
                )

        async def piece(start: int) -> pb.Reply:
            wanted = pb.WriteBytes(
                thread=thread.wire_id,
                stop=stopped.stop,
                frame=frame,
                target=into,
                offset=offset + start,
                data=data[start : start + _PIECE],
            )
            return await self._look(thread, pb.Command(write_bytes=wanted))

        await _some_at_a_time(piece, range(0, max(len(data), 1), _PIECE))

    # ---- programs --------------------------------------------------------------------------------

    async def ops(self, program: ProgramRef) -> list[pb.OpInfo]:
        """All ops in the order of the listing; fetched once for each version of the program."""
        key = program.executor.id, program.event.program, program.event.version
        if key in self._ops:
            return self._ops[key]
        ops: list[pb.OpInfo] = []
        while True:
            page = pb.ListOps(program=program.event.program, start=len(ops), count=_PAGE)
            reply = (await program.executor.ask(pb.Command(list_ops=page))).ops
            ops.extend(reply.ops)
            if not reply.ops or len(ops) >= reply.total:
                break
        # Older versions are not needed again.
        self._ops = {old: ops for old, ops in self._ops.items() if old[:2] != key[:2]} | {key: ops}
        return ops

    async def listing(self, program: ProgramRef) -> list[str]:
        lines: list[str] = []
        while True:
            page = pb.GetListing(program=program.event.program, start=len(lines) + 1, count=_PAGE)
            reply = (await program.executor.ask(pb.Command(get_listing=page))).listing
            lines.extend(reply.lines)
            if not reply.lines or len(lines) >= reply.total:
                return lines

    def _forget(self, executor_id: int) -> None:
        self._ops = {key: ops for key, ops in self._ops.items() if key[0] != executor_id}

    # ---- inside ----------------------------------------------------------------------------------

    async def _look(self, thread: Thread, command: pb.Command) -> pb.Reply:
        try:
            return await thread.executor.ask(command)
        except asyncio.CancelledError:
            if command.id:
                task = asyncio.create_task(thread.executor.give_up(command.id))
                self._given_up.add(task)
                task.add_done_callback(self._given_up.discard)
            raise


async def _some_at_a_time(work: Callable[[int], Awaitable[object]], items: Iterable[int]) -> None:
    """Does the work for each item; when one fails the others are cancelled."""
    left = iter(items)

    async def one_by_one() -> None:
        for item in left:
            await work(item)

    tasks = [asyncio.create_task(one_by_one()) for _ in range(_UNDER_WAY)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _uses(named: Iterable[str], name: str) -> bool:
    """Whether one of the names is it, or begins with it: `out.shape`."""
    return any(each == name or each.startswith(f"{name}.") for each in named)


def _parsed(text: str | pb.Expr) -> pb.Expr:
    return expr.parse(text) if isinstance(text, str) else text
