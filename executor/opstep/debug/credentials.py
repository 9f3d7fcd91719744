"""The token that this process shows a debug server, and the certificates to check it with."""

from __future__ import annotations

import ipaddress
import os
import stat

from opstep._core import Error


def read_token(path: str) -> str:
    """The token in a file that nobody else can read."""
    try:
        with open(path, encoding="ascii") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Error(f"the token file {path} is not a regular file")
            if status.st_mode & 0o077 or status.st_uid not in (os.geteuid(), 0):
                raise Error(f"the token file {path} can be read by others: chmod 600 it")
            token = file.read(4096).strip()
    except UnicodeDecodeError:
        token = ""
    except OSError as error:
        raise Error(f"cannot read the token file {path}: {error.strerror}") from None
    if not token or not token.isprintable() or " " in token:
        raise Error(f"the token in {path} is not one word of printable ASCII")
    return token


def read_certificates(path: str) -> str:
    """Root certificates for TLS, in PEM."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(1 << 20)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not PEM"
        raise Error(f"cannot read the TLS certificate {path}: {reason}") from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise Error(f"cannot read the TLS certificate {path}: it is not PEM")
    return text


def beyond_this_machine(address: str) -> bool:
    """Does a `host:port` lie on another machine, as far as its name tells?"""
    if address.startswith("unix:"):
        return False
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
