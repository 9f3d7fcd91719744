"""PNG files written by hand, with zlib alone, and bilinear resizing in NumPy."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width: int, height: int, depth: int, color: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))


def png(pixels: np.ndarray, color: int, palette: np.ndarray | None = None) -> bytes:
    """[height, width, channels] of uint8 or uint16; with a palette, the numbers of its colours."""
    height, width = pixels.shape[:2]
    rows = pixels.astype(pixels.dtype.newbyteorder(">")).reshape(height, -1)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = [b"\x89PNG\r\n\x1a\n", header(width, height, 8 * pixels.itemsize, color)]
    if palette is not None:
        parts.append(chunk(b"PLTE", palette.astype(np.uint8).tobytes()))
    return b"".join([*parts, chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")])


def random_image(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def write_png(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(pixels, {1: GRAY, 2: GRAY_ALPHA, 3: RGB, 4: RGBA}[pixels.shape[2]]))
    return path


def gray(rgb: np.ndarray) -> np.ndarray:
    """Grey by ITU-R 601, the usual formula."""
    return (rgb @ np.array([0.299, 0.587, 0.114]))[..., None]


def weights(size: int, to: int) -> np.ndarray:
    """[to, size]: a triangle around each centre, as wide as the coarser of the two grids."""
    scale = size / to
    centers = (np.arange(to) + 0.5) * scale
    distance = np.abs(np.arange(size) + 0.5 - centers[:, None]) / max(scale, 1)
    found = np.maximum(0, 1 - distance)
    return found / found.sum(1, keepdims=True)


def resized(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    rows, columns = weights(pixels.shape[0], height), weights(pixels.shape[1], width)
    return np.einsum("yh,xw,hwc->yxc", rows, columns, pixels.astype(np.float64))
