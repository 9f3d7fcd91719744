"""Strangers: nothing is open that was not asked for, and nothing is said before the token."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest

from harness import dap_client
from harness.certificates import make_certificate
from harness.processes import OPSTEP, PROGRAMS, SECONDS, Client, Script, Server, attach, connect
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

TANH = [{"name": "tanh"}]


def tcp_ports(pid: int) -> set[str]:
    """The TCP ports at which the process listens."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(entry)
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                ports.add(words[1])
    return ports


def framed(message: object) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def initialize(**arguments: object) -> bytes:
    arguments = {"adapterID": "opstep", **arguments}
    request = {"seq": 1, "type": "request", "command": "initialize", "arguments": arguments}
    return framed(request)


async def _call(address: str, token: str | None) -> tuple[grpc.StatusCode, int]:
    async with grpc.aio.insecure_channel(address) as channel:
        attach = channel.stream_stream(
            "/opstep.proto.DebugServer/Attach",
            request_serializer=pb.FromExecutor.SerializeToString,
            response_deserializer=pb.ToExecutor.FromString,
        )
        stream = attach(metadata=(("authorization", token),) if token else None)
        messages = 0
        try:
            while await stream.read() is not grpc.aio.EOF:
                messages += 1
        except grpc.aio.AioRpcError:
            pass
        return await stream.code(), messages


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("dap", "--listen", "127.0.0.1:0") as started:
        yield started


# ---- closed by default ---------------------------------------------------------------------------


def test_no_tcp_port_is_opened_unless_asked_for(tmp_path: Path) -> None:
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with Server("serve", **env) as server:
        with Script(tmp_path, OPSTEP_SERVER=server.executors, **env).ready() as script:
            with Client(server.clients) as client:
                attach(client, {}, functions=TANH)
                client.stopped("function breakpoint")
                assert tcp_ports(server.process.pid) == set()
                assert tcp_ports(script.pid) == set()
                client.request("disconnect")
            script.finish()
        for name in ("server", "dap"):
            assert not (tmp_path / "opstep" / name).stat().st_mode & 0o077
    with Server("serve", "--listen", "127.0.0.1:0", **env) as server:
        assert len(tcp_ports(server.process.pid)) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "example.org"])
@pytest.mark.parametrize("words", [["dap", "--listen"], ["serve", "--listen"], ["serve", "--dap"]])
def test_beyond_this_machine_only_with_tls_and_token(host: str, words: list[str]) -> None:
    command = [*OPSTEP, *words, f"{host}:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1
    assert "can be reached from other machines" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough\n")
    token.chmod(0o644)
    command = [*OPSTEP, "dap", "--listen", "127.0.0.1:0", "--token-file", str(token)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1 and "can be read by others" in done.stderr
    env = {"OPSTEP_SERVER": "127.0.0.1:9", "OPSTEP_TOKEN_FILE": str(token)}
    with Script(tmp_path, **env) as script:
        output = script.finish()
        assert "can be read by others" in output and "done" in output


@pytest.mark.parametrize("missing", ["token", "certificate"])
def test_an_executor_dials_no_other_machine_without_both(tmp_path: Path, missing: str) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough\n")
    token.chmod(0o600)
    env = {"OPSTEP_TOKEN_FILE": str(token)} if missing == "certificate" else {}
    with Script(tmp_path, OPSTEP_SERVER="192.0.2.1:7001", **env) as script:
        output = script.finish()
        assert "is on another machine" in output and "done" in output


# ---- the token -----------------------------------------------------------------------------------


def test_the_token_is_seen_nowhere(tmp_path: Path) -> None:
    words = ["serve", "--listen", "127.0.0.1:0", "--dap", "127.0.0.1:0"]
    with Server(*words, XDG_RUNTIME_DIR=str(tmp_path)) as server:
        token = server.token
        assert stat.S_IMODE(os.stat(server.token_file).st_mode) == 0o600
        env = {"OPSTEP_SERVER": server.executors, "OPSTEP_TOKEN_FILE": server.token_file}
        with Script(tmp_path, **env).ready() as script:
            with Client(server.clients, token) as client:
                attach(client, {}, functions=TANH)
                client.stopped("function breakpoint")
                for pid in (server.process.pid, script.pid):
                    for name in ("cmdline", "environ"):
                        assert token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
                told = json.dumps(client.history)
                client.request("disconnect")
            output = script.finish()
    assert token not in told + output + server.said


@pytest.mark.parametrize("token", [None, "", "wrong", 7])
def test_a_wrong_token_gets_not_a_byte(server: Server, token: object) -> None:
    with server.connect() as stranger:
        stranger.sendall(initialize(**({} if token is None else {"opstepToken": token})))
        assert stranger.recv(1) == b""
    with Client(server.clients, server.token) as client:
        client.start(PROGRAMS / "mlp.py", "--steps", "1")
        assert client.ends() == 0


NOISE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "post": b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "half a header": b"Content-Len",
    "giant": b"Content-Length: 99999999999\r\n\r\n",
    "negative": b"Content-Length: -1\r\n\r\n",
    "no header's end": b"Content-Length: " + b"1" * 5000,
    "no json": b"Content-Length: 4\r\n\r\nabcd",
    "a list": framed([1, 2, 3]),
    "another request first": framed({"seq": 1, "type": "request", "command": "threads"}),
    "launch first": framed(
        {"seq": 1, "type": "request", "command": "launch", "arguments": {"program": "/bin/sh"}}
    ),
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE.keys())
def test_after_noise_the_next_client_is_served_at_once(server: Server, noise: bytes) -> None:
    with server.connect() as stranger:
        stranger.sendall(noise)
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(1) == b""
    with Client(server.clients, server.token) as client:
        client.initialize()
        client.request("disconnect")


def test_strangers_that_say_nothing_keep_nobody_out(server: Server) -> None:
    silent = [server.connect() for _ in range(50)]
    with Client(server.clients, server.token) as client:
        client.initialize()
        client.request("disconnect")
    for stranger in silent:
        stranger.close()


def test_who_tries_tokens_waits_and_keeps_nobody_out(server: Server) -> None:
    guess = initialize(opstepToken="wrong")
    began = time.monotonic()
    for _ in range(4):
        with server.connect() as stranger:
            stranger.sendall(guess)
            assert stranger.recv(1) == b""
    # 0.1 + 0.2 + 0.4 s: the first one does not wait.
    assert time.monotonic() - began >= 0.7
    trying = [server.connect() for _ in range(20)]
    for stranger in trying:
        stranger.sendall(guess)
    with Client(server.clients, server.token) as client:
        client.initialize()
        client.request("disconnect")
    for stranger in trying:
        stranger.close()


def test_who_tries_tokens_and_does_not_wait_for_answers_learns_nothing(server: Server) -> None:
    """A right token that comes after wrong ones is answered as late as they are."""
    for number in range(300):
        with server.connect() as stranger:
            stranger.sendall(initialize(opstepToken=f"wrong-{number}"))
    with server.connect() as first:
        first.sendall(initialize(opstepToken="wrong"))
        assert first.recv(1) == b""
    began = time.monotonic()
    with Client(server.clients, server.token) as client:
        client.initialize()
        # At least what one wrong token costs; those that left before their turn cost nothing.
        assert time.monotonic() - began >= 0.1
        client.request("disconnect")


def test_both_ports_of_a_server_count_wrong_tokens_together(tmp_path: Path) -> None:
    words = ["serve", "--listen", "127.0.0.1:0", "--dap", "127.0.0.1:0"]
    with Server(*words, XDG_RUNTIME_DIR=str(tmp_path)) as server:
        asyncio.run(_call(server.executors, "Bearer wrong"))
        asyncio.run(_call(server.executors, "Bearer wrong"))
        began = time.monotonic()
        with Client(server.clients, server.token) as client:
            client.initialize()
            assert time.monotonic() - began >= 0.2
            client.request("disconnect")


@pytest.mark.parametrize("given", [False, True])
def test_a_client_over_tcp_gets_data_or_files_in_the_folder_of_the_owner(
    tmp_path: Path, given: bool
) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside.npy"
    folder.mkdir()
    (folder / "there.npy").write_text("precious")
    (folder / "way out").symlink_to(tmp_path)
    words = ["--save-folder", str(folder)] if given else []
    with Server("dap", "--listen", "127.0.0.1:0", *words) as server:
        with Client(server.clients, server.token) as client:
            client.start(PROGRAMS / "mlp.py", "--steps", "1", functions=[{"name": "matmul"}])
            client.stopped("function breakpoint")

            def save(path: str) -> dict[str, object]:
                return client.request("opstepSave", {"expression": "X", "path": path})

            def refusal(path: str) -> str:
                return client.fails("opstepSave", {"expression": "X", "path": path}).sentence

            if given:
                for path in (str(outside), "../outside.npy", "way out/outside.npy"):
                    assert refusal(path) == f"this server writes files below {folder} only"
                assert "arguments.path has a NUL byte" in refusal("a\0b.npy")
                assert "is there already" in refusal("there.npy")
                assert save("new.npy")["path"] == str(folder / "new.npy")
                assert np.load(folder / "new.npy").ndim == 2
            else:
                for path in (str(outside), str(folder / "there.npy"), ""):
                    body = save(path)
                    assert body["path"] == ""
                    data = base64.b64decode(str(body["data"]))
                    assert np.load(io.BytesIO(data)).ndim == 2
            client.request("disconnect")
    assert not outside.exists()
    assert (folder / "there.npy").read_text() == "precious"


@pytest.mark.parametrize("token", [None, "Bearer wrong"])
def test_a_grpc_call_without_the_token_ends_before_a_message(
    tmp_path: Path, token: str | None
) -> None:
    words = ["serve", "--listen", "127.0.0.1:0"]
    with Server(*words, XDG_RUNTIME_DIR=str(tmp_path)) as server:
        code, messages = asyncio.run(_call(server.executors, token))
        assert code == grpc.StatusCode.UNAUTHENTICATED and messages == 0


def test_an_executor_with_the_wrong_token_says_so_and_runs(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-right-token\n")
    wrong.chmod(0o600)
    words = ["serve", "--listen", "127.0.0.1:0"]
    with Server(*words, XDG_RUNTIME_DIR=str(tmp_path)) as server:
        env = {"OPSTEP_SERVER": server.executors, "OPSTEP_TOKEN_FILE": str(wrong)}
        with Script(tmp_path, OPSTEP_WAIT="100", **env) as script:
            output = script.finish()
        assert output.count("opstep: no debugger: the token is missing or wrong") == 1, output
        assert "done" in output and "not-the-right-token" not in output


# ---- TLS -----------------------------------------------------------------------------------------


def test_with_tls_and_token_from_end_to_end(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "server")
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough\n")
    token.chmod(0o600)
    words = ["serve", "--listen", "0.0.0.0:0", "--dap", "0.0.0.0:0", "--token-file", str(token)]
    words += ["--tls-cert", str(cert), "--tls-key", str(key)]
    with Server(*words, XDG_RUNTIME_DIR=str(tmp_path)) as server:
        port = server.executors.rpartition(":")[2]
        env = {"OPSTEP_SERVER": f"localhost:{port}", "OPSTEP_TOKEN_FILE": str(token)}
        with Script(tmp_path, OPSTEP_TLS_CA=str(cert), OPSTEP_WAIT="100", **env) as script:
            script.ready()
            # Plain bytes are nothing to it.
            clients = f"127.0.0.1:{server.clients.rpartition(':')[2]}"
            with connect(clients) as stranger:
                stranger.sendall(initialize(opstepToken=token.read_text().strip()))
                assert b"Content-Length" not in stranger.recv(100)
            with dap_client.Session() as session:
                where = {"connect": clients, "tokenFile": str(token), "tlsCa": str(cert)}
                attach(session, where, functions=TANH)
                session.stopped("function breakpoint")
                session.request("disconnect")
            assert "done" in script.finish()


def test_a_server_that_nobody_vouches_for_is_not_spoken_to(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "impostor")
    ca = str(make_certificate(tmp_path, "right")[0])
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough\n")
    token.chmod(0o600)
    seen: list[bytes] = []

    async def main() -> str:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.read(1000))
            writer.close()

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        impostor = await asyncio.start_server(take, "127.0.0.1", 0, ssl=context)
        port = impostor.sockets[0].getsockname()[1]
        env = {"OPSTEP_SERVER": f"localhost:{port}", "OPSTEP_TOKEN_FILE": str(token)}
        with Script(tmp_path, OPSTEP_TLS_CA=ca, OPSTEP_WAIT="2", **env) as script:
            output = await asyncio.to_thread(script.finish)
        impostor.close()
        return output

    assert "done" in asyncio.run(main())
    assert not any(seen), seen
