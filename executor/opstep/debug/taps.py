"""Log values of ops from Python: `opstep.debug.tap("conv*", every=100, to="logs")`."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from opstep import _core
from opstep._core import Error
from opstep.debug import collector_process, connection

_SECONDS = 10.0
_POLL_SECONDS = 0.005


class Tap:
    """A tap that this program has set. It stays when this object is forgotten.

    As a context manager it is removed at the end of the block.
    """

    def __init__(self, uid: str, name: str) -> None:
        self.uid = uid
        self.name = name

    def counts(self) -> dict[str, int]:
        """The counts of its records: produced is the sum of all the others."""
        return dict(self._status()["counts"])

    @property
    def ops(self) -> int:
        """The number of compiled ops that it logs."""
        return int(self._status()["ops"])

    @property
    def message(self) -> str:
        """The problem of the tap, or the reason for its end; empty when all is well."""
        status = self._status()
        return str(status["ended"] or status["message"])

    def change(self, **keys: Any) -> None:
        """Changes these keys; None unsets one. The counts go on."""
        _ask({**_plain(keys), "uid": self.uid})

    def remove(self) -> None:
        _ask({"uid": self.uid, "remove": True})

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Tap {self.name}>"

    def _status(self) -> dict[str, Any]:
        for status in _core.debug_taps():
            if status["uid"] == self.uid:
                return status
        raise Error(f"there is no tap '{self.name}' any more")


def tap(ops: str | None = None, *, to: str | Sequence[str] | None = None, **keys: Any) -> Tap:
    """Log values of ops while they run, without stopping them.

    `ops` is a type or a pattern over names; `line`, `variable` or `gradient_of` can be given
    instead. The other keys are those of a tap in taps.toml (docs/taps.md), with `for_` for `for`.
    `to` is a directory, `"-"` for the standard output, `"parquet:DIR"` and so on, or the name of a
    sink of the debug server. Without a server, one is started beside this process.
    """
    said = _plain({"ops": ops, "to": to, **keys})
    _connect()
    uid = _ask(said)
    status = next((each for each in _core.debug_taps() if each["uid"] == uid), None)
    return Tap(uid, str(status["name"] if status else said.get("name") or uid))


def _connect() -> None:
    if not _core.debug_state().wanted:
        connection.connect(collector_process.start(None))
    end = time.monotonic() + _SECONDS
    while not (state := _core.debug_state()).server:
        if state.refused:
            raise Error(f"no debug server takes the tap: {state.refused}")
        if time.monotonic() >= end:
            raise Error(f"no debug server came within {_SECONDS:g} s to take the tap")
        time.sleep(_POLL_SECONDS)


def _ask(said: dict[str, Any]) -> str:
    text = json.dumps({**said, "directory": os.getcwd()})
    return str(_core.debug_tap_request(text, _SECONDS))


def _plain(keys: dict[str, Any]) -> dict[str, Any]:
    """The keys with values that JSON has."""
    said: dict[str, Any] = {}
    for name, value in keys.items():
        if isinstance(value, datetime.timedelta):
            value = value.total_seconds()
        elif isinstance(value, datetime.date):
            value = value.isoformat()
        elif isinstance(value, tuple | set | frozenset):
            value = list(value)
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        elif hasattr(value, "item"):
            value = value.item()  # A number of NumPy.
        said[name.removesuffix("_")] = value
    try:
        json.dumps(said)
    except (TypeError, ValueError) as error:
        raise Error(f"a tap cannot have these keys: {error}") from None
    return said
