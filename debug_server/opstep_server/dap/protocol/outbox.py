"""The outbox to the client: messages numbered from 1, events kept behind open responses."""

from __future__ import annotations

from collections.abc import Mapping

from opstep_server.dap.protocol.framing import ByteSink, Json, frame

# Bytes that a client may leave unread before less important output is dropped.
MAX_UNREAD = 8 << 20


class Outbox:
    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._seq = 0
        self._holds = 0
        self._held: list[Json] = []
        self._closed = False
        # A response and the events after it go out in one write.
        self.one_write = _OneWrite(sink)

    def request(self, command: str, arguments: Mapping[str, object]) -> int:
        """Sends a request to the client; returns the number that its response will name."""
        self._send({"type": "request", "command": command, "arguments": arguments})
        return self._seq

    def event(self, name: str, body: Mapping[str, object] | None = None) -> None:
        message = {"type": "event", "event": name, "body": body or {}}
        if self._holds:
            self._held.append(message)
        else:
            self._send(message)

    @property
    def behind(self) -> bool:
        """Whether the client reads too slowly."""
        unread = getattr(self._sink, "get_write_buffer_size", None)
        return unread is not None and unread() > MAX_UNREAD

    def output(self, category: str, text: str) -> None:
        self.event("output", {"category": category, "output": text})

    def response(self, request_seq: int, command: str, body: Mapping[str, object] | None) -> None:
        self._send(
            {
                "type": "response",
                "request_seq": request_seq,
                "success": True,
                "command": command,
                "body": body or {},
            }
        )

    def failure(self, request_seq: int, command: str, short: str, sentence: str) -> None:
        self._send(
            {
                "type": "response",
                "request_seq": request_seq,
                "success": False,
                "command": command,
                "message": short,
                "body": {"error": {"id": 1, "format": sentence, "showUser": command == "launch"}},
            }
        )

    def forward(self, message: Json) -> None:
        """Sends another adapter's message, in our numbering."""
        message.pop("seq", None)
        self._send(message)

    def hold(self) -> None:
        """Events wait until the matching `release`: a `stopped` must not overtake its `next`."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if self._holds == 0:
            held, self._held = self._held, []
            for message in held:
                self._send(message)

    def close(self) -> None:
        """Sends nothing any more: the client has left."""
        self._closed = True

    def _send(self, message: Json) -> None:
        if self._closed:
            return
        framed = frame({"seq": self._seq + 1, **message})
        self._seq += 1
        if self.one_write.gathering:
            self.one_write.gathered.append(framed)
        else:
            # Header and body in one write: two would wait for each other's acknowledgement on TCP.
            self._sink.write(framed)


class _OneWrite:
    """Everything sent within its `with` goes out together at the end."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self.gathering = False
        self.gathered: list[bytes] = []

    def __enter__(self) -> None:
        self.gathering = True

    def __exit__(self, *error: object) -> None:
        self.gathering = False
        if self.gathered:
            self._sink.write(b"".join(self.gathered))
            self.gathered.clear()
