"""An executor that replays a recording, over the real socket with real gRPC."""

from __future__ import annotations

import asyncio
import os

import grpc.aio

from opstep_server import recording
from opstep_server.wire import debug_pb2 as pb

PATIENCE = 120.0 * float(os.environ.get("OPSTEP_TEST_PATIENCE", "1"))  # As in patience.py.


class ReplayedExecutor:
    """Sends each recorded message once it has received the messages recorded before it."""

    def __init__(self, address: str, path: str, connection: int = 1) -> None:
        self._entries = [e for e in recording.read(path) if e.connection == connection]
        self._channel = grpc.aio.insecure_channel(address)
        self._call = self._channel.stream_stream(
            "/opstep.proto.DebugServer/Attach",
            request_serializer=pb.FromExecutor.SerializeToString,
            response_deserializer=pb.ToExecutor.FromString,
        )()

    async def play(self) -> None:
        """Plays to the end of the recording; fails when it receives a different message."""
        ids: dict[int, int] = {}
        for entry in self._entries:
            message = entry.message
            if isinstance(message, pb.FromExecutor):
                if message.HasField("reply"):
                    message.reply.command = ids[message.reply.command]
                await self._call.write(message)
                continue
            told = await self._told()
            assert told.WhichOneof("message") == message.WhichOneof("message"), (told, message)
            if message.HasField("command"):
                ids[message.command.id] = told.command.id
                told.command.id = message.command.id
                assert told.command == message.command, f"then:\n{message}\nnow:\n{told}"
        await self._call.done_writing()

    async def _told(self) -> pb.ToExecutor:
        while True:
            message = await asyncio.wait_for(self._call.read(), PATIENCE)
            assert isinstance(message, pb.ToExecutor), "the server ended the stream"
            if not message.HasField("heartbeat"):
                return message

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close()
