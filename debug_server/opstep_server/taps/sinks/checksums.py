"""CRC-32C of many messages at once, a byte of each at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78
_ALL = np.uint32(0xFFFFFFFF)
# What may be padded to the longest of a group, in bytes.
_GROUP = 1 << 20


Sums = npt.NDArray[np.uint32]


def _table() -> Sums:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


_TABLE = _table()
_PLAIN: list[int] = _TABLE.tolist()


def crc32c(messages: list[bytes]) -> Sums:
    sums = np.empty(len(messages), np.uint32)
    lengths = np.array([len(message) for message in messages])
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        group = order[start : start + max(1, _GROUP // max(1, longest))]
        if len(group) < 16:
            group = group[:1]
            sums[group[0]] = _one(messages[group[0]])
        else:
            sums[group] = _several([messages[index] for index in group])
        start += len(group)
    return sums


def masked(messages: list[bytes]) -> Sums:
    """As records of event files have them."""
    sums = crc32c(messages)
    turned: Sums = (sums >> np.uint32(15)) | (sums << np.uint32(17))
    turned += np.uint32(0xA282EAD8)
    return turned


def _several(messages: list[bytes]) -> Sums:
    """Longest first."""
    lengths = [len(message) for message in messages]
    padded = b"".join(message.ljust(lengths[0], b"\0") for message in messages)
    # A row a position, so that the bytes of one step lie side by side.
    steps = np.frombuffer(padded, np.uint8).reshape(len(messages), lengths[0]).T.copy()
    going = np.searchsorted(-np.array(lengths), -np.arange(lengths[0]), side="left").tolist()
    sums: Sums = np.full(len(messages), _ALL)
    for position, count in enumerate(going):
        now = sums[:count]
        sums[:count] = _TABLE[(now ^ steps[position, :count]) & np.uint32(255)] ^ (
            now >> np.uint32(8)
        )
    sums ^= _ALL
    return sums


def _one(message: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in message:
        crc = _PLAIN[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
