"""Words of pdb and gdb in an editor's console: the stack, watchpoints, another way to print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opstep_server import functions
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.stops import Stop
from opstep_server.debugger import BreakpointSpec, DataWhere, DebuggerError
from opstep_server.functions import SPECIAL_NAMES

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# The owner of breakpoints from the console; the client's own lists do not replace them.
_OWNER = "console"
_STACK = re.compile(r"(?:bt|where|backtrace)(?P<full> +full)?(?: +(?P<count>-?\d+))?")
_PRINT = re.compile(r"(?:p|pp|print|inspect) +(?P<text>[^\s(=].*)")
_SET = re.compile(r"set +(?:var(?:iable)? +)?(?P<text>[^\s=].*)")
_WATCH = re.compile(r"watch +(?P<name>\S.*)")
_UNWATCH = re.compile(r"unwatch(?: +(?P<name>\S.*))?")
_HELP = re.compile(r"help(?:\(\)| +\w+)?|\?|h")
# Commands that an editor has as buttons or in its margin.
_BUTTONS = re.compile(
    r"(?:n|next|s|step|stepi|nexti|c|cont|continue|finish|return|until|advance|run|r|restart|"
    r"u|up|d|down|frame|b|break|tbreak|delete|clear|disable|enable|condition|ignore|commands|"
    r"q|quit|exit|kill|l|ll|list)(?: +[\w.#:*-]+)*"
)


def help_lines() -> list[str]:
    return [
        "An expression shows its value, and an assignment changes a variable or a part of one:",
        "  fc_0.w.mean(), x[0, :4], w[0] = 0, w *= 0.5",
        "'bt' shows the stack, 'bt 3' its innermost frames, 'bt full' their tensors too;",
        "'watch NAME' stops when an op writes the variable, 'unwatch [NAME]' takes that back.",
        "'!bt' and the like show a variable that has the name of a command.",
        "Breakpoints and steps are the editor's.",
        *functions.help_lines(),
    ]


def expression(text: str) -> str:
    """The expression or assignment of 'print x' and 'set var x = 1'; the text itself otherwise."""
    for words in (_PRINT, _SET):
        if found := words.fullmatch(text):
            return found["text"]
    return text


class Console:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        # By variable.
        self._watched: dict[str, BreakpointSpec] = {}

    async def asks_help(self, text: str, frame: int | None) -> bool:
        """Also without a stop; `h` and `help` may be variables."""
        if _HELP.fullmatch(text) is None:
            return False
        return not (text.isidentifier() and text in await self._names(frame))

    async def answer(self, text: str, frame: int | None) -> str | None:
        """The answer to a command; None for other texts."""
        if text.isidentifier() and text in await self._names(frame):
            return None
        if found := _STACK.fullmatch(text):
            count = int(found["count"]) if found["count"] else None
            return "\n".join(await self._stack(self._stop(frame), bool(found["full"]), count))
        if found := _WATCH.fullmatch(text):
            return await self._watch(found["name"], frame)
        if found := _UNWATCH.fullmatch(text):
            return await self._unwatch(found["name"], frame)
        if _BUTTONS.fullmatch(text):
            word = text.split()[0]
            raise RequestError(
                f"'{word}' is done by the editor's own buttons and margin; 'help' shows what can "
                "be typed here"
            )
        return None

    async def _names(self, frame: int | None) -> set[str]:
        """The names of expressions: 'step' is the number of the run."""
        try:
            ref, index = self._session.inspection.frame(frame)
            names = await self._session.debugger.names(ref.stop.thread.id, index)
        except (RequestError, DebuggerError):
            return set()
        python = (each.name for each in names.python)
        return {*SPECIAL_NAMES, *names.variables, *names.slots, *names.attributes, *python}

    def _stop(self, frame: int | None) -> Stop:
        stops = self._session.stops
        return stops.newest() if frame is None else stops.frame(frame).stop

    # ---- the stack -------------------------------------------------------------------------------

    async def _stack(self, stop: Stop, full: bool, count: int | None) -> list[str]:
        asked = Arguments({"threadId": stop.thread.id})
        frames = (await self._session.inspection.stackTrace_request(asked))["stackFrames"]
        numbered = [frame for frame in frames if frame.get("presentationHint") != "label"]
        lines: list[str] = []
        first = max(len(numbered) + count, 0) if count is not None and count < 0 else 0
        last = len(numbered) if count is None or count < 0 else count
        for number, frame in list(enumerate(numbered))[first:last]:
            lines.append(f"#{number}  {frame['name']}{_place(frame)}")
            if full and frame.get("presentationHint") != "subtle":
                lines += [f"      {line}" for line in await self._tensors(frame)]
        left = len(numbered) - len(range(first, min(last, len(numbered))))
        if left:
            lines.append(f"{left} more frame{'s' if left > 1 else ''}: 'bt' shows all")
        return lines

    async def _tensors(self, frame: types.StackFrame) -> list[str]:
        inspection = self._session.inspection
        scopes = (await inspection.scopes_request(Arguments({"frameId": frame["id"]})))["scopes"]
        lines: list[str] = []
        for scope in scopes:
            if scope["name"] not in ("Inputs", "Outputs"):
                continue
            asked = Arguments({"variablesReference": scope["variablesReference"]})
            for row in (await inspection.variables_request(asked))["variables"]:
                lines.append(f"{row['name']} = {row['value']}")
        return lines

    # ---- watchpoints -----------------------------------------------------------------------------

    async def _watch(self, name: str, frame: int | None) -> str:
        variable = await self._session.inspection.variable_of(name, None, frame)
        self._watched[variable] = BreakpointSpec(DataWhere(variable))
        told = (await self._set())[list(self._watched).index(variable)]
        self._session.outbox.event("breakpoint", {"reason": "new", "breakpoint": told})
        more = f": {told['message']}" if "message" in told else ""
        return f"it stops when an op writes {variable}{more}; 'unwatch {name}' takes that back"

    async def _unwatch(self, name: str | None, frame: int | None) -> str:
        if not self._watched:
            raise RequestError("nothing is watched from here: 'watch NAME' does")
        if name is None:
            gone = list(self._watched)
        else:
            gone = [await self._session.inspection.variable_of(name, None, frame)]
            if gone[0] not in self._watched:
                watched = ", ".join(self._watched)
                raise RequestError(f"'{name}' is not watched from here: {watched} is")
        for variable in gone:
            del self._watched[variable]
        await self._set()
        return f"{', '.join(gone)} is no longer watched"

    async def _set(self) -> list[types.Breakpoint]:
        return await self._session.breakpoints.replace(_OWNER, list(self._watched.values()))


def _place(frame: types.StackFrame) -> str:
    source = frame.get("source")
    return f", {source['name']}:{frame['line']}" if source is not None and "name" in source else ""
