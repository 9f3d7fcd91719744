"""The request `completions`: what could be typed next in an expression."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, request
from opstep_server.dap.variables import taken_names, typed_name
from opstep_server.functions import FUNCTIONS, SPECIAL_NAMES
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

MAX_TARGETS = 500
# Variable names contain dots.
_WORD = re.compile(r"[\w.@]*$")
# Written after a dot without brackets.
_PROPERTIES = ("shape", "size", "ndim", "dtype")
_NO_METHODS = ("where", "grad", "var")


class CompletionRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    @request(
        run=Run.INSPECTION, supportsCompletionsRequest=True, completionTriggerCharacters=[".", "["]
    )
    async def completions_request(self, arguments: Arguments) -> types.CompletionsResponseBody:
        first = self._session.client.first_column
        column = max(arguments.integer("column") - first, 0)
        # Columns count UTF-16 units.
        encoded = arguments.string("text").encode("utf-16-le", "surrogatepass")
        before = encoded[: 2 * column].decode("utf-16-le", "replace")
        match = _WORD.search(before)
        word = match[0] if match else ""
        names = await self._names(arguments.optional_integer("frameId"))
        start = len(before.encode("utf-16-le", "surrogatepass")) // 2 + first
        taken = taken_names(names)
        targets: dict[str, types.CompletionItem] = {}
        for typed, label, kind in itertools.chain(_whole(names, word), _attributes(word)):
            if len(targets) == MAX_TARGETS:
                break
            length = len(typed)
            item: types.CompletionItem = {
                "label": label,
                "type": kind,
                "start": start - length,
                "length": length,
            }
            if kind == "variable" and typed_name(label, taken) != label:
                item["text"] = typed_name(label, taken)
            targets.setdefault(label, item)
        return {"targets": list(targets.values())}

    async def _names(self, handle: int | None) -> pb.Names:
        if handle is None and not self._session.stops:
            return pb.Names()
        try:
            ref, frame = self._session.inspection.frame(handle)
        except RequestError:
            return pb.Names()  # A Python frame, or a frame of an earlier stop: functions only.
        return await self._session.debugger.names(ref.stop.thread.id, frame)


# The typed part, the whole text and its kind.
_Found = tuple[str, str, types.CompletionItemType]


def _whole(names: pb.Names, word: str) -> Iterator[_Found]:
    kinds: list[tuple[list[str], types.CompletionItemType]] = [
        (list(names.slots), "field"),
        (sorted({*names.variables, *(python.name for python in names.python)}), "variable"),
        (list(names.attributes), "property"),
        (list(SPECIAL_NAMES), "keyword"),
        (list(FUNCTIONS), "function"),
    ]
    for found, kind in kinds:
        yield from ((word, name, kind) for name in found if name.startswith(word))


def _attributes(word: str) -> Iterator[_Found]:
    """Completions after a dot: `x.me` to `x.mean`."""
    _, dot, typed = word.rpartition(".")
    if not dot:
        return
    for name in FUNCTIONS:
        if name.startswith(typed) and name not in _NO_METHODS:
            yield typed, name, "property" if name in _PROPERTIES else "method"
