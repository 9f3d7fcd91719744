"""The base class of sinks: opened, written to in batches and closed on one thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from opstep_server.taps.records import Batch


class SinkError(Exception):
    """One sentence for the user. The batch that was being written counts as lost."""


@dataclass(frozen=True)
class Key:
    """A setting of one kind of sink, as `taps.toml` has it."""

    name: str
    type: type  # str, int, float, bool; or bytes for a size such as "64MB"
    default: object
    doc: str


class Sink(ABC):
    """All calls come from one thread, `open` first; none of them ever holds up a run.

    Any of them may raise SinkError or OSError: the batch counts as lost, `close` is called, and
    `open` again before a later batch. What `write` took must be safe from a crash of this process
    when `flush` returns.
    """

    kind: ClassVar[str]
    doc: ClassVar[str]
    # The package extra that it needs ("opstep-server[parquet]"), and the module that must be
    # installed.
    extra: ClassVar[str] = ""
    module: ClassVar[str] = ""
    keys: ClassVar[tuple[Key, ...]] = ()

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        """`path` comes from the settings, made absolute; settings are checked and complete."""
        self.path = path
        self.settings = settings

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def write(self, batch: Batch) -> None: ...

    def flush(self) -> None:  # noqa: B027
        """Called soon after `write`; less often when it is slow."""

    def close(self) -> None:  # noqa: B027
        """Never raises because of an earlier failure; may be called without `open`."""
