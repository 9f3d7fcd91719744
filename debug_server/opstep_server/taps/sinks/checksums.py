"""CRC-32C of many messages at once.

They are cut into pieces of the same size. All pieces are processed in parallel, one byte of each at
a time; the checksum is linear, so that the results can be combined afterwards.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Sums = npt.NDArray[np.uint32]
_POLYNOMIAL = 0x82F63B78
_PIECE = 128


def _table() -> Sums:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


_TABLE = _table()


def _through(state: Sums, steps: npt.NDArray[np.uint8]) -> Sums:
    """Changes it in place."""
    low = state.view(np.uint8)[::4]  # numbers are little-endian
    for bytes_ in steps:
        index = low ^ bytes_
        state >>= np.uint32(8)
        state ^= _TABLE[index]
    return state


def _starts() -> Sums:
    """By number of zeros, the state from which they lead to the start of a message."""
    plain = _TABLE.tolist()
    by_top = {entry >> 24: index for index, entry in enumerate(plain)}
    states = [0xFFFFFFFF]
    for _ in range(_PIECE):
        index = by_top[states[-1] >> 24]
        states.append(((states[-1] ^ plain[index]) << 8) & 0xFFFFFFFF | index)
    return np.array(states, np.uint32)


def _shifts() -> list[list[int]]:
    """The effect of a piece of zeros on each byte of a state; the sum is the whole effect."""
    zeros = np.zeros((_PIECE, 1), np.uint8)
    bytes_ = np.arange(256, dtype=np.uint32)
    return [_through(bytes_ << np.uint32(place), zeros).tolist() for place in (0, 8, 16, 24)]


_START = _starts()
_SHIFT = _shifts()


def crc32c(messages: list[bytes]) -> Sums:
    counts = [max(1, -(-len(message) // _PIECE)) for message in messages]
    # Messages are padded with zeros in front, which the start state makes up for.
    both = list(zip(messages, counts, strict=True))
    padded = b"".join(message.rjust(count * _PIECE, b"\0") for message, count in both)
    steps = np.frombuffer(padded, np.uint8).reshape(-1, _PIECE).T.copy()
    state = np.zeros(steps.shape[1], np.uint32)
    first = np.cumsum([0, *counts])[:-1]
    state[first] = _START[[count * _PIECE - len(message) for message, count in both]]
    pieces = iter(_through(state, steps).tolist())
    sums = np.empty(len(messages), np.uint32)
    low, second, third, high = _SHIFT
    for index, count in enumerate(counts):
        crc = next(pieces)
        for _ in range(count - 1):
            moved = low[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255]
            crc = moved ^ high[crc >> 24] ^ next(pieces)
        sums[index] = crc ^ 0xFFFFFFFF
    return sums


def masked(messages: list[bytes]) -> Sums:
    """The masked checksums of event files."""
    sums = crc32c(messages)
    turned: Sums = (sums >> np.uint32(15)) | (sums << np.uint32(17))
    turned += np.uint32(0xA282EAD8)
    return turned
