"""Requests on expressions: their values, and values assigned to variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opstep_server import assignment, expr, values
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.requests import console
from opstep_server.dap.requests.console import Console
from opstep_server.dap.requests.inspection_requests import wants_hex
from opstep_server.dap.stops import ScopeRef, Stop, TensorRef
from opstep_server.dap.variables import element_expr, indexable
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# The most elements of a tensor that a hover reads, and of a copy.
HOVER_ELEMENTS = 1 << 22
COPY_ELEMENTS = 100_000

_ELEMENT = re.compile(r"\[(\d+)\]")


class EvaluationRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._console = Console(session)

    @request(
        When.INITIALIZED,
        Run.INSPECTION,
        supportsEvaluateForHovers=True,
        supportsClipboardContext=True,
    )
    async def evaluate_request(self, arguments: Arguments) -> types.EvaluateResponseBody:
        if arguments.string("context", "") == "repl":
            return await self._in_console(arguments)
        self._session.stops.check()
        text = arguments.string("expression").strip()
        return await self._evaluate(arguments, text)

    async def _in_console(self, arguments: Arguments) -> types.EvaluateResponseBody:
        text = arguments.string("expression").strip()
        frame = arguments.optional_integer("frameId")
        # As in the terminal: an expression, whatever its name.
        plain = text.startswith("!")
        if plain:
            text = text[1:].lstrip()
        elif await self._console.asks_help(text, frame):
            return {"result": "\n".join(console.help_lines()), "variablesReference": 0}
        self._session.stops.check()
        answer = None if plain else await self._console.answer(text, frame)
        if answer is not None:
            return {"result": answer, "variablesReference": 0}
        try:
            return await self._evaluate(arguments, text if plain else console.expression(text))
        except expr.ExprError as error:
            raise RequestError(f"{error}; 'help' shows what can be typed here") from None
        except DebuggerError as error:
            if not str(error).startswith("there is no variable"):
                raise
            raise RequestError(
                f"{error}; the editor's view of variables and 'bt full' show those that are here"
            ) from None

    async def _evaluate(self, arguments: Arguments, text: str) -> types.EvaluateResponseBody:
        context = arguments.string("context", "")
        ref, frame = self._session.inspection.frame(arguments.optional_integer("frameId"))
        hex = wants_hex(arguments)
        change = assignment.spelt_out(text) or text
        if context == "repl" and (parts := assignment.assignment(change)) is not None:
            return _result(await self._assign(ref.stop, frame, *parts, hex))
        parsed = expr.parse(text)
        debugger, thread = self._session.debugger, ref.stop.thread.id
        note = ""
        if context == "hover":
            text = await self._as_in_source(thread, frame, text, parsed)
        elif context != "clipboard":
            notes = await debugger.hidden_notes(thread, frame, parsed)
            note = "".join(f"\n{each}" if context == "repl" else f"  ({each})" for each in notes)
        if context == "hover":
            brief = await self._too_large_to_hover(ref.stop, frame, parsed)
            if brief:
                return {"result": brief, "variablesReference": 0}
        value = await self._session.debugger.evaluate(
            ref.stop.thread.id, frame, parsed, max_elements=values.SMALL
        )
        if context == "clipboard" and value.WhichOneof("kind") == "tensor":
            copy = await self._copy(ref.stop, frame, text, parsed, value.tensor)
            return {"result": copy, "variablesReference": 0}
        if context == "clipboard" and value.WhichOneof("kind") == "f":
            return {"result": values.as_number(value.f), "variablesReference": 0}
        self._session.stops.begin_answer()
        shown = self._session.variables.value(
            ref.stop, frame, value, parsed, indexable(text), hex=hex, passing=True
        )
        result = _result(shown)
        result["result"] += note
        return result

    async def _as_in_source(self, thread: int, frame: int, text: str, parsed: pb.Expr) -> str:
        """The mouse is on a line of Python: names have their meaning in Python."""
        debugger = self._session.debugger
        for each in await debugger.hidden_names(thread, frame, parsed):
            variable = each.variable or each.name
            expr.replace(parsed, each.name, expr.variable(variable))
            text = text.replace(each.name, f'var("{variable}")', 1)
        for name in await debugger.slots_only(thread, frame, parsed):
            raise RequestError(
                f"Python's {name} holds no variable of this program here; the op has a slot of "
                "that name, which the console shows"
            )
        return text

    async def _too_large_to_hover(self, stop: Stop, frame: int, parsed: pb.Expr) -> str:
        """The text shown instead of a value that would take time."""
        if not assignment.is_plain(parsed):
            raise RequestError("a hover shows variables and their elements, and computes nothing")

        async def ask(about: str) -> pb.Value:
            call = pb.Expr.Call(function=about, args=[parsed])
            return await self._session.debugger.evaluate(
                stop.thread.id, frame, pb.Expr(call=call), max_elements=values.SMALL
            )

        try:
            small = (await ask("size")).i <= HOVER_ELEMENTS
        except DebuggerError:
            small = True  # Not a tensor; if there is no such value, the evaluation says so.
        if small:
            return ""
        return f"{(await ask('dtype')).s}{values.describe(await ask('shape'))}"

    async def _copy(
        self, stop: Stop, frame: int, text: str, parsed: pb.Expr, tensor: pb.Tensor
    ) -> str:
        count = 1
        for size in tensor.dims:
            count *= size
        if count > COPY_ELEMENTS:
            raise RequestError(
                f"{count} elements are too many to copy: at most {COPY_ELEMENTS}, "
                f"take a part such as {indexable(text)}[:10]"
            )
        data, _ = await self._session.debugger.read_bytes(
            stop.thread.id, frame, parsed, 0, 8 * count
        )
        return values.as_array(pb.Tensor(dtype=tensor.dtype, dims=tensor.dims, data=data))

    # ---- changing --------------------------------------------------------------------------------

    @request(When.STOPPED, supportsSetVariable=True)
    async def setVariable_request(self, arguments: Arguments) -> types.SetVariableResponseBody:
        name = arguments.string("name")
        ref = self._session.stops.variable(arguments.integer("variablesReference"))
        if isinstance(ref, ScopeRef) and name in ref.children:
            child = ref.children[name]
            if not child.variable:
                raise RequestError(f"{name} is an attribute of the op, which cannot be changed")
            target, text = child.expr, child.text
        elif isinstance(ref, TensorRef) and name in ref.parts:
            target, text = ref.parts[name].expr, ref.parts[name].text
        elif isinstance(ref, TensorRef) and (match := _ELEMENT.fullmatch(name)) and not ref.offsets:
            target, text = element_expr(ref.expr, int(match[1])), f"{ref.text}{name}"
        else:
            raise RequestError(f"there is nothing called {name} to change")
        shown = await self._assign(
            ref.stop, ref.frame, target, arguments.string("value"), wants_hex(arguments), text
        )
        return _new_value(shown)

    @request(When.STOPPED, supportsSetExpression=True)
    async def setExpression_request(self, arguments: Arguments) -> types.SetVariableResponseBody:
        ref, frame = self._session.inspection.frame(arguments.optional_integer("frameId"))
        shown = await self._assign(
            ref.stop,
            frame,
            arguments.string("expression"),
            arguments.string("value"),
            wants_hex(arguments),
        )
        return _new_value(shown)

    async def _assign(
        self,
        stop: Stop,
        frame: int,
        target: str | pb.Expr,
        value: str,
        hex: bool,
        text: str = "",
    ) -> types.Variable:
        if isinstance(target, str):
            text, target = indexable(target.strip()), expr.parse(target)
        new = await self._session.debugger.assign(stop.thread.id, frame, target, value)
        self._session.memory.edited(stop, target)
        self._session.stops.begin_answer()
        return self._session.variables.value(stop, frame, new, target, text, hex=hex, passing=True)


def _result(shown: types.Variable) -> types.EvaluateResponseBody:
    result: types.EvaluateResponseBody = {
        "result": shown["value"],
        "variablesReference": shown["variablesReference"],
    }
    if "type" in shown:
        result["type"] = shown["type"]
    if "indexedVariables" in shown:
        result["indexedVariables"] = shown["indexedVariables"]
    if "memoryReference" in shown:
        result["memoryReference"] = shown["memoryReference"]
    return result


def _new_value(shown: types.Variable) -> types.SetVariableResponseBody:
    new: types.SetVariableResponseBody = {
        "value": shown["value"],
        "variablesReference": shown["variablesReference"],
    }
    if "type" in shown:
        new["type"] = shown["type"]
    if "indexedVariables" in shown:
        new["indexedVariables"] = shown["indexedVariables"]
    if "memoryReference" in shown:
        new["memoryReference"] = shown["memoryReference"]
    return new
