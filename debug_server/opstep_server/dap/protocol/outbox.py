"""The outbox to the client: messages numbered from 1, events kept behind open responses."""

from __future__ import annotations

from collections.abc import Mapping

from opstep_server.dap.protocol.framing import ByteSink, Json, frame

# What a client may leave unread before it is spared what can be spared.
MAX_UNREAD = 8 << 20


class Outbox:
    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self._seq = 0
        self._holds = 0
        self._held: list[Json] = []
        self._closed = False
        # A response and the events behind it wake the client once.
        self.one_write = _OneWrite(sink)

    def request(self, command: str, arguments: Mapping[str, object]) -> int:
        """Asks something of the client; the number that its response will name."""
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
        """The client does not read as fast as there is something to say."""
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
        """Another adapter's message, in our numbering."""
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
        """Nothing is sent any more: the client has left."""
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
    """All that is sent in its `with` goes out at the end of it, together."""

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
