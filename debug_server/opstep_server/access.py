"""Access to servers and processes: addresses, tokens and TLS.

A unix socket is for its owner only. TCP on this machine needs a token; from other
machines it needs TLS too. Tokens live in files that nobody else can read, and are never shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import os
import secrets
import socket
import stat
import tempfile
import time
from dataclasses import dataclass, field

from opstep_server.model import DebuggerError

# The most bytes in the path of a unix socket.
MAX_PATH = 107
_MIN_TOKEN = 16


@dataclass(frozen=True)
class Address:
    """`unix:/path` or `host:port`."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Reachable from this machine only."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


# Seconds that each check of a token waits after the first wrong one; doubled for each further wrong
# one, up to a limit.
FIRST_DELAY, LONGEST_DELAY = 0.1, 3.0
# Seconds after the last wrong token until all are forgotten.
FORGET_SECONDS = 30.0
# The most checks that wait at the same time; further ones come after them.
MOST_AT_ONCE = 60


class TokenGate:
    """Slows down the guessing of tokens: one for all connections of a server.

    A check waits for a time that only earlier wrong tokens decide. A right token waits as long, so
    silence says nothing about a token, and guessing from many connections is not faster.
    """

    def __init__(self) -> None:
        self._delay = 0.0
        self._last = 0.0
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def admits(self, token: str, right: str) -> bool:
        """Compares them; a caller who gives up meanwhile cancels this."""
        async with self._turns:
            if time.monotonic() - self._last > FORGET_SECONDS:
                self._delay = 0.0
            if self._delay:
                await asyncio.sleep(self._delay)
            # In constant time; other characters than ASCII cannot be compared.
            if token.isascii() and hmac.compare_digest(token.encode(), right.encode()):
                return True
            self._last = time.monotonic()
            self._delay = min(max(2 * self._delay, FIRST_DELAY), LONGEST_DELAY)
            return False


@dataclass(frozen=True)
class Endpoint:
    """Where to listen, and what a client must show there."""

    address: Address
    token_file: str = ""
    token: str = field(default="", repr=False)
    certificate_file: str = ""
    key_file: str = ""
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    # The token file was made for this endpoint.
    made: bool = False
    # Shared by all endpoints of a server.
    gate: TokenGate = field(default_factory=lambda: TokenGate(), repr=False, compare=False)

    def forget(self) -> None:
        """Nobody listens there any more: removes the token that was made for it."""
        if self.made:
            with contextlib.suppress(OSError):
                os.unlink(self.token_file)

    async def admits(self, token: object) -> bool:
        """Whether the token is right; told later if wrong ones came before. No token: at once."""
        if not self.token:
            return True
        return isinstance(token, str) and await self.gate.admits(token, self.token)


def parse_address(text: str) -> Address:
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise DebuggerError("the address 'unix:' names no socket: write unix:/path")
        path = os.path.abspath(path)
        if len(os.fsencode(path)) > MAX_PATH:
            raise DebuggerError(f"the path of a unix socket has at most {MAX_PATH} bytes: {path}")
        return Address(path=path)
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise DebuggerError(f"'{text}' is not an address: write unix:/path or host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise DebuggerError(f"'{text}' is not an address: write [{host}]:{port}")
    if not host:
        raise DebuggerError(f"'{text}' names no host: write 127.0.0.1:{port} for this machine only")
    return Address(host=host, port=int(port))


def listen_endpoint(
    address: str, token_file: str | None = None, cert: str | None = None, key: str | None = None
) -> Endpoint:
    """The endpoint for an address; makes a token for TCP on this machine when none is given."""
    where = parse_address(address)
    if bool(cert) != bool(key):
        raise DebuggerError("TLS needs both a certificate and its key")
    if not where.loopback and not (cert and token_file):
        raise DebuggerError(
            f"{address} can be reached from other machines: "
            "give a TLS certificate, its key and a token file"
        )
    if where.path and listens(where.path):
        raise DebuggerError(f"something else is listening at {address}: choose another place")
    made = not where.path and not token_file
    if made:
        token_file = make_token_file()
    return Endpoint(
        where,
        token_file or "",
        read_token(token_file) if token_file else "",
        cert or "",
        key or "",
        _read(cert, "the TLS certificate") if cert else b"",
        _read_private(key, "the TLS key") if key else b"",
        made,
    )


@dataclass(frozen=True)
class Place:
    """A server to connect to, with the credentials that it needs."""

    address: Address
    token: str = field(default="", repr=False)
    roots: bytes = b""


def dial_place(address: str, token_file: str | None = None, tls_ca: str | None = None) -> Place:
    where = parse_address(address)
    if not where.loopback and not (token_file and tls_ca):
        raise DebuggerError(f"{address} is on another machine: give --token-file and --tls-ca")
    return Place(
        where,
        read_token(token_file) if token_file else "",
        _read(tls_ca, "the root certificates") if tls_ca else b"",
    )


def user_folder() -> str:
    """The folder for this user's sockets, which nobody else can enter; made when missing."""
    places = [f"/tmp/opstep-{os.geteuid()}"]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        places.insert(0, os.path.join(runtime, "opstep"))
    for place in places:
        with contextlib.suppress(OSError):
            os.mkdir(place, 0o700)
        if is_private(place):
            return place
    raise DebuggerError(f"{places[-1]} is not a folder that only you can enter: chmod 700 it")


def is_private(folder: str) -> bool:
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return ours and not status.st_mode & 0o077


def make_token_file() -> str:
    """Writes a new token to a file that only we can read."""
    descriptor, path = tempfile.mkstemp(prefix="opstep-token-")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    return path


def read_token(path: str) -> str:
    text = _read_private(path, "the token file").decode("ascii", "replace").strip()
    if not text.isprintable() or " " in text or "�" in text:
        raise DebuggerError(f"the token in {path} is not one word of printable ASCII")
    if len(text) < _MIN_TOKEN:
        raise DebuggerError(f"the token in {path} is shorter than {_MIN_TOKEN} characters")
    return text


def listens(path: str) -> bool:
    """Whether a process listens at this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise DebuggerError(f"cannot read {what} {path}: {error.strerror}") from error


def _read_private(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DebuggerError(f"{what} {path} is not a file")
            if status.st_mode & 0o077 or status.st_uid not in (os.geteuid(), 0):
                raise DebuggerError(f"{what} {path} can be read by others: chmod 600 it")
            return file.read(1 << 20)
    except OSError as error:
        raise DebuggerError(f"cannot read {what} {path}: {error.strerror}") from error
