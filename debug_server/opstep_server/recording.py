"""A recording of the wire as JSON lines: for tests and bug reports.

One line for a message: seconds since the start, the connection's number, and the message `heard`
from the executor or `told` to it. Heartbeats are left out. OPSTEP_RECORD names the file.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from google.protobuf import json_format

from opstep_server.wire import debug_pb2 as pb

Message = pb.FromExecutor | pb.ToExecutor


@dataclass(frozen=True)
class Entry:
    seconds: float
    connection: int
    message: Message


class Recorder:
    """A file that cannot be written is reported once; no message fails because of it."""

    def __init__(self, path: str) -> None:
        self._start = time.monotonic()
        self._numbers = itertools.count(1)
        self._file: TextIO | None = None
        try:
            # It holds tensors: only the user may read it.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        except OSError as error:
            print(f"opstep: cannot record to {path}: {error.strerror}", file=sys.stderr)

    def connection(self) -> int:
        """A number for a new connection."""
        return next(self._numbers)

    def write(self, connection: int, message: Message) -> None:
        if self._file is None or message.WhichOneof("message") == "heartbeat":
            return
        way = "heard" if isinstance(message, pb.FromExecutor) else "told"
        entry = {
            "seconds": round(time.monotonic() - self._start, 6),
            "connection": connection,
            way: json_format.MessageToDict(message, preserving_proto_field_name=True),
        }
        try:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
        except OSError as error:
            print(f"opstep: the recording ends here: {error.strerror}", file=sys.stderr)
            self._file = None


def from_environment() -> Recorder | None:
    path = os.environ.get("OPSTEP_RECORD")
    return Recorder(path) if path else None


def read(path: str) -> Iterator[Entry]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            message: Message
            if "heard" in entry:
                message = json_format.ParseDict(entry["heard"], pb.FromExecutor())
            else:
                message = json_format.ParseDict(entry["told"], pb.ToExecutor())
            yield Entry(entry["seconds"], entry["connection"], message)
