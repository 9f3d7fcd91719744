"""The outline of a JSON object: enough to name a request that is too large to keep."""

from __future__ import annotations

import json
import re
from typing import Any

_STRUCTURE = re.compile(rb'["{}\[\]]')
_QUOTE_OR_ESCAPE = re.compile(rb'["\\]')
# Texts that identify a request are short.
_MAX_TEXT = 200
_MAX_OUTLINE = 4096


class RequestOutline:
    """Bytes in, in any pieces; nothing below the first level is kept."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._depth = 0
        self._in_text = False
        self._text = bytearray()
        self._escaped = False

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at = self._text_from(data, at) if self._in_text else self._structure_from(data, at)

    def read(self) -> dict[str, Any]:
        """The object's own texts and numbers; empty when it is no object, or a strange one."""
        if len(self._kept) > _MAX_OUTLINE:
            return {}
        try:
            value = json.loads(bytes(self._kept))
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def _keep(self, data: bytes) -> None:
        if self._depth <= 1 and len(self._kept) <= _MAX_OUTLINE:
            self._kept += data[: _MAX_OUTLINE + 1]

    def _structure_from(self, data: bytes, at: int) -> int:
        found = _STRUCTURE.search(data, at)
        if found is None:
            self._keep(data[at:])
            return len(data)
        self._keep(data[at : found.start()])
        sign = found[0]
        if sign == b'"':
            self._in_text = True
            self._text.clear()
        elif sign in b"{[":
            self._keep(sign if self._depth == 0 else b"null")
            self._depth += 1
        else:
            self._depth -= 1
            if self._depth == 0:
                self._kept += sign
        return found.end()

    def _text_from(self, data: bytes, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._gather(data[at : at + 1])
            return at + 1
        found = _QUOTE_OR_ESCAPE.search(data, at)
        end = len(data) if found is None else found.start()
        self._gather(data[at:end])
        if found is None:
            return end
        if found[0] == b"\\":
            self._escaped = True
            self._gather(b"\\")
        else:
            self._in_text = False
            short = bytes(self._text) if len(self._text) <= _MAX_TEXT else b""
            self._keep(b'"' + short + b'"')
        return end + 1

    def _gather(self, data: bytes) -> None:
        if len(self._text) <= _MAX_TEXT:
            self._text += data[: _MAX_TEXT + 1]
