"""The wire: a gRPC server for each address where we listen. The only Python file that knows gRPC.

One event loop, no threads of our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import os
import shutil
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from opstep_server import recording
from opstep_server.access import Address, Endpoint
from opstep_server.connection import MESSAGE_LIMIT, PROTOCOL, Connection, Listener
from opstep_server.model import DebuggerError
from opstep_server.wire import debug_pb2 as pb


def _version() -> str:
    """The version of gRPC before its import; `importlib.metadata` would take longer than that."""
    found = importlib.util.find_spec("grpc")
    if found is None or not found.submodule_search_locations:
        return ""
    try:
        with open(os.path.join(found.submodule_search_locations[0], "_grpcio_metadata.py")) as file:
            return file.read().partition('"""')[2]
    except OSError:
        return ""


# gRPC reads these when it is imported. Its newer event loop hands each message from thread to
# thread, a fourth of a round trip. Set for this version only: another one may not know the setting
# and would print a warning in the user's terminal. The terminal does not show gRPC's log of
# connections that end either.
_SETTINGS = {"GRPC_VERBOSITY": "ERROR"}
if _version().startswith("1.85."):
    _SETTINGS["GRPC_EXPERIMENTS"] = "-event_engine_listener"
_SETTINGS = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
os.environ.update(_SETTINGS)
import grpc  # noqa: E402
import grpc.aio  # noqa: E402

for _name in _SETTINGS:
    del os.environ[_name]  # What we launch has its own gRPC.

HELLO_SECONDS = 10.0
# Raised by a stream when its other side is gone.
_BROKEN = (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError)
# The key of the metadata that groups a guest's streams.
_GUEST = "opstep-guest"
STOP_SECONDS = 0.5
_Context = grpc.aio.ServicerContext[pb.FromExecutor, pb.ToExecutor]


# The stream of an executor that dialled us, or that another server passes on.
_Stream = _Context | grpc.aio.StreamStreamCall[pb.ToExecutor, pb.FromExecutor]
# Passes on an executor to the guest of that name.
Visit = Callable[[str, Any], Awaitable[None]]


class Server:
    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._servers: list[grpc.aio.Server] = []
        self._endpoints: list[Endpoint] = []
        self._folder = ""
        self._connections: set[Connection] = set()
        self._recorder = recording.from_environment()
        # Shares the executors with guests; None: guests are refused.
        self.on_visit: Visit | None = None
        self._guides: set[asyncio.Task[None]] = set()
        self._abroad: tuple[grpc.aio.Channel, asyncio.Task[None]] | None = None

    async def start(self) -> str:
        """Listens once, on a socket in a new folder, and returns the address to dial."""
        address = Address(path=f"{self._folder}/socket")
        if not self._folder:
            self._folder = _private_folder()
            address = Address(path=f"{self._folder}/socket")
            await self.open(Endpoint(address))
        return str(address)

    async def open(self, endpoint: Endpoint) -> str:
        """Listens there too and returns the address to dial: the port may have been 0."""
        server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_send_message_length", MESSAGE_LIMIT),
                ("grpc.max_receive_message_length", MESSAGE_LIMIT),
            ]
        )
        attach = grpc.stream_stream_rpc_method_handler(
            functools.partial(self._attach, endpoint),
            request_deserializer=pb.FromExecutor.FromString,
            response_serializer=pb.ToExecutor.SerializeToString,
        )
        visit = grpc.stream_stream_rpc_method_handler(
            functools.partial(self._admit, endpoint),
            request_deserializer=pb.ToExecutor.FromString,
            response_serializer=pb.FromExecutor.SerializeToString,
        )
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {"Attach": attach, "Visit": visit}
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("opstep.proto.DebugServer", handlers)]
        )
        address = endpoint.address
        # gRPC makes the socket; nobody else may open it, not even for a moment.
        mask = os.umask(0o177)
        try:
            if endpoint.key:
                credentials = grpc.ssl_server_credentials([(endpoint.key, endpoint.certificate)])
                port = server.add_secure_port(str(address), credentials)
            else:
                port = server.add_insecure_port(str(address))
        except (RuntimeError, ValueError):
            port = 0
        finally:
            os.umask(mask)
        if not port:
            raise DebuggerError(f"cannot listen at {address}: is something else listening there?")
        await server.start()
        self._servers.append(server)
        self._endpoints.append(endpoint)
        return str(address if address.path else replace(address, port=port))

    async def stop(self) -> None:
        servers, self._servers = self._servers, []
        # Streams that we end ourselves end well, for both sides.
        for connection in self._connections:
            connection.drop()
        await asyncio.gather(*(server.stop(STOP_SECONDS) for server in servers))
        await self.end_visit()
        for endpoint in self._endpoints:
            endpoint.forget()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    async def end_visit(self) -> None:
        """Leaves the server that we visit, if any."""
        abroad, self._abroad = self._abroad, None
        if abroad is not None:
            channel, task = abroad
            task.cancel()
            await channel.close()

    # ---- guests ----------------------------------------------------------------------------------

    async def _admit(self, endpoint: Endpoint, _requests: Any, context: Any) -> None:
        # Cancelled when the caller leaves before its answer.
        if not await endpoint.admits(_token(context)):
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the token is missing or wrong: --token-file must name a file with the server's "
                "token",
            )
        if self.on_visit is None:
            await context.abort(
                grpc.StatusCode.UNIMPLEMENTED, "a debugger listens there that shares nothing"
            )
            return
        name = next((v for k, v in context.invocation_metadata() or () if k == _GUEST), "")
        await context.write(pb.FromExecutor(heartbeat=pb.Heartbeat()))
        with contextlib.suppress(asyncio.CancelledError):
            await self.on_visit(str(name), context)

    async def visit(
        self, address: Address, token: str, roots: bytes, gone: Callable[[str], None]
    ) -> None:
        """Brings the executors of a server here, until it is gone; raises if there is none."""
        options = [
            ("grpc.max_send_message_length", MESSAGE_LIMIT),
            ("grpc.max_receive_message_length", MESSAGE_LIMIT),
            ("grpc.enable_http_proxy", 0),
        ]
        if roots:
            credentials = grpc.ssl_channel_credentials(roots)
            channel = grpc.aio.secure_channel(str(address), credentials, options)
        else:
            channel = grpc.aio.insecure_channel(str(address), options)
        method = channel.stream_stream(
            "/opstep.proto.DebugServer/Visit",
            request_serializer=pb.ToExecutor.SerializeToString,
            response_deserializer=pb.FromExecutor.FromString,
        )
        metadata = [(_GUEST, uuid.uuid4().hex)]
        if token:
            metadata.append(("authorization", f"Bearer {token}"))
        call = method(metadata=metadata)
        problem = await _problem(call)
        if problem:
            await channel.close()
            raise DebuggerError(f"no debug server to share at {address}: {problem}")

        async def next_ones() -> None:
            waiting = call
            while True:
                with contextlib.suppress(*_BROKEN):
                    message = await waiting.read()
                    if isinstance(message, pb.FromExecutor) and message.HasField("hello"):
                        if strange := _strange(message.hello, "this debugger"):
                            waiting.cancel()
                            gone(f"nothing to share with the debug server at {address}: {strange}")
                            return
                        self._guided(message.hello, waiting)
                        waiting = method(metadata=metadata)
                        continue
                    if isinstance(message, pb.FromExecutor):
                        continue
                gone(f"the debug server at {address} is gone")
                return

        self._abroad = channel, asyncio.create_task(next_ones())

    def _guided(self, hello: pb.Hello, stream: Any) -> None:
        task = asyncio.create_task(self._serve(hello, stream))
        self._guides.add(task)
        task.add_done_callback(self._guides.discard)

    async def _attach(self, endpoint: Endpoint, _requests: Any, context: _Context) -> None:
        if not await endpoint.admits(_token(context)):
            # Before anything is read or written.
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the token is missing or wrong: OPSTEP_TOKEN_FILE must name a file with the "
                "debug server's token",
            )
        hello = await self._hello(context)
        if hello is not None:
            await self._serve(hello, context, private=bool(endpoint.address.path))

    async def _serve(self, hello: pb.Hello, stream: _Stream, private: bool = False) -> None:
        """Serves one executor, from its hello to its end."""
        connection = Connection(hello, stream, _BROKEN, self._recorder)
        connection.private = private
        self._connections.add(connection)
        await connection.serve(self._listener, self._listener.joined(connection))
        self._connections.discard(connection)

    async def _hello(self, context: _Context) -> pb.Hello | None:
        """The executor's hello, or None when we cannot talk to it."""
        with contextlib.suppress(asyncio.TimeoutError, grpc.aio.BaseError):
            message = await asyncio.wait_for(context.read(), HELLO_SECONDS)
            if not isinstance(message, pb.FromExecutor):
                return None
            if message.WhichOneof("message") != "hello":
                await _refuse(context, "the first message must be a hello")
            elif strange := _strange(message.hello, "this debug server"):
                await _refuse(context, strange)
            else:
                return message.hello
        return None


def _strange(hello: pb.Hello, we: str) -> str:
    """Why we cannot talk to that executor; "" when we can."""
    if hello.protocol == PROTOCOL:
        return ""
    theirs = hello.opstep_version or "of unknown version"
    return (
        f"the executor (opstep {theirs}) speaks protocol {hello.protocol} but {we} speaks "
        f"{PROTOCOL}: install the same opstep on both sides"
    )


async def _problem(call: Any) -> str:
    """Why the server refuses a guest; "" when it does not."""
    try:
        message = await asyncio.wait_for(call.read(), HELLO_SECONDS)
        if isinstance(message, pb.FromExecutor):
            return ""
        return str(await call.details() or "it closed the connection")
    except asyncio.TimeoutError:
        return "it does not answer"
    except grpc.aio.AioRpcError as error:
        refused = error.code() == grpc.StatusCode.UNAVAILABLE
        return "nobody listens there" if refused else error.details() or str(error.code())


def _token(context: _Context) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization" and isinstance(value, str):
            return value.removeprefix("Bearer ")
    return None


async def _refuse(context: _Context, error: str) -> None:
    await context.write(pb.ToExecutor(welcome=pb.Welcome(protocol=PROTOCOL, error=error)))


def _private_folder() -> str:
    # A unix socket's path has room for 107 bytes, less than some temporary folders take.
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > 70:
        base = "/tmp"
    return tempfile.mkdtemp(prefix="opstep-", dir=base)
