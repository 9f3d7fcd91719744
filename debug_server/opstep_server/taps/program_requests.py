"""Taps that programs ask for with `opstep.debug.tap(...)`: JSON with the keys of a tap in a file.

More keys: `uid` of a tap to change, `remove`, and `directory`, the program's own, where relative
paths begin. `to` may also be a place, as in `opstep log --to`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Sequence

from opstep_server.model import DebuggerError, ExecutorProcess
from opstep_server.taps import config
from opstep_server.taps.local_sinks import LocalSinks, RequestedTap, message_of
from opstep_server.taps.registry import Wanted

_OWN = ("uid", "remove", "directory")


class ProgramRequests:
    def __init__(
        self,
        local_sinks: LocalSinks,
        push: Callable[[Sequence[Wanted]], Awaitable[None]],
        end: Callable[[Sequence[str], Sequence[ExecutorProcess]], Awaitable[None]],
    ) -> None:
        """`end` waits for records on the way from taps that will be removed."""
        self._local_sinks = local_sinks
        self._push = push
        self._end = end

    async def answer(self, executor: ExecutorProcess, text: str) -> str:
        """Sets a tap and returns its uid; raises DebuggerError when that fails."""
        said = _parse(text)
        uid, directory = said.get("uid"), said.get("directory")
        keys = {name: value for name, value in said.items() if name not in _OWN}
        if uid is not None:
            identity = executor.hello.identity
            known = self._local_sinks.asked(uid, identity) if isinstance(uid, str) else None
            if not isinstance(uid, str) or known is None:
                raise DebuggerError("there is no such tap any more: set it again")
            if said.get("remove"):
                await self._end([uid], [executor])
                await self._push(self._local_sinks.forget(uid))
                return uid
            keys = {**known.said, **keys}
        keys = {name: value for name, value in keys.items() if value is not None}
        base = directory if isinstance(directory, str) and executor.connection.private else ""
        uid = uid or uuid.uuid4().hex[:16]
        await self._set(executor, uid, keys, base)
        return uid

    async def ended(self, identity: str) -> None:
        """The process will not come back: removes its taps."""
        if (wanted := self._local_sinks.forget_process(identity)) is not None:
            await self._push(wanted)

    async def _set(
        self, executor: ExecutorProcess, uid: str, keys: dict[str, object], base: str
    ) -> None:
        to = keys.get("to", [])
        to = [to] if isinstance(to, str) else to
        known = [each.name for each in self._local_sinks.settings.sinks]
        own: list[config.SinkSettings] = []
        names: list[object] = []
        for place in to if isinstance(to, (list, tuple)) else [to]:
            # Only this user's processes on this machine may choose where files are written.
            if isinstance(place, str) and place not in known and base:
                made = config.sinks_to(place, base, full=_is_full(keys))
                own += made
                names += [each.name for each in made]
            else:
                names.append(place)
        if not known and not names:
            raise DebuggerError('say where to: to="logs", a directory, or to="-"')
        there = [*known, *(each.name for each in own)]
        tap = config.tap({**keys, "to": names}, (base,), _at, there)
        who = f"process {executor.pid} on {executor.hello.host} (opstep.debug.tap)"
        wanted = Wanted(message_of(tap, uid, who), executor.hello.identity, once=True)
        await self._push(self._local_sinks.ask(uid, RequestedTap(wanted, tap, tuple(own), keys)))


def _parse(text: str) -> dict[str, object]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise DebuggerError("a tap is an object of keys and values")
    return said


def _is_full(keys: dict[str, object]) -> bool:
    what = keys.get("what", ())
    return isinstance(what, (str, list, tuple)) and "full" in what


def _at(path: tuple[str | int, ...]) -> str:
    return ""
