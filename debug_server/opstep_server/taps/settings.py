"""Settings of taps and sinks, and the common code of their readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opstep_server import expr
from opstep_server.model import DebuggerError
from opstep_server.taps.sinks import kinds
from opstep_server.taps.sinks.base import Sink
from opstep_server.taps.toml_lines import Path as KeyPath
from opstep_server.wire import debug_pb2 as pb

DEFAULT_MEMORY = 64_000_000

T = TypeVar("T")


class ConfigError(DebuggerError):
    """One sentence that begins with its place."""


# The place that begins a message, for the key with the error.
At = Callable[[KeyPath], str]


@dataclass(frozen=True)
class SinkSettings:
    name: str
    kind: str
    # Absolute; "-" for the standard output.
    path: str
    settings: Mapping[str, object]

    def make(self) -> Sink:
        return kinds.load(self.kind)(Path(self.path), dict(self.settings))


@dataclass(frozen=True)
class TapSettings:
    name: str
    # Without uid and who.
    message: pb.Tap
    # Names of sinks; empty: all.
    to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    server: str = ""
    sinks: tuple[SinkSettings, ...] = ()
    taps: tuple[TapSettings, ...] = ()
    # The most bytes that wait for one sink.
    memory: int = DEFAULT_MEMORY


def check_known(
    what: Mapping[str, object], names: Iterable[str], path: KeyPath, of: str, at: At
) -> None:
    known = list(names)
    for word in what:
        if word not in known:
            hint = expr.suggest(word, known) or f"there are {', '.join(known)}"
            raise ConfigError(f"{at((*path, word))}'{word}' is not a key of {of}: {hint}")


def read_value(value: object, read: Callable[[object], T], where: str) -> T:
    """The value, converted by one of the readers in keys.py."""
    try:
        return read(value)
    except ValueError as error:
        raise ConfigError(f"{where}{error}") from None
