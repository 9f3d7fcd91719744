"""Damaged and hostile files as sources: one sentence, or what was there before; never a crash, and
no memory for sizes out of nowhere. Checksums must find whatever they guard.
"""

from __future__ import annotations

import io
import random
import resource
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness import png_files as images
from harness.processes import run_file
from opstep import Error, _core

CASES = 1500
MEMORY = 2 << 30

Records = list[list[np.ndarray]]


def damaged(rng: random.Random, data: bytes) -> bytes:
    kind = rng.choice(["cut", "flip", "flips", "hole", "noise"])
    out = bytearray(data)
    begin = rng.randrange(len(data))
    if kind == "cut":
        del out[begin:]
    elif kind == "hole":
        del out[begin : begin + rng.randint(1, 40)]
    elif kind == "noise":
        out[begin : begin + 4] = rng.randbytes(rng.choice([4, 4, 8]))
    else:
        for bit in rng.sample(range(len(data) * 8), 1 if kind == "flip" else 9):
            out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(60, dtype=np.float32).reshape(20, 3))
    return out.getvalue()


def npz(save: Any) -> bytes:
    out = io.BytesIO()
    save(out, x=np.arange(600, dtype=np.float32).reshape(200, 3), y=np.arange(200) % 7)
    return out.getvalue()


def jpeg(**options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(images.random_image(24, 17)).save(out, "JPEG", **options)
    return out.getvalue()


def table() -> bytes:
    rows = "".join(f'{n},"text ""{n}""",{n / 7}\r\n' for n in range(40))
    return f"a,t,b\r\n{rows}".encode()


def open_images(folder: Path, name: str, data: bytes) -> _core.Source:
    (folder / name).write_bytes(data)
    return _core.open_images(str(folder), labels=False, dtype="uint8")


def open_npy(folder: Path, name: str, data: bytes) -> _core.Source:
    (folder / name).write_bytes(data)
    return _core.open_npy([str(folder / name)], ["x"])


def open_csv(folder: Path, name: str, data: bytes) -> _core.Source:
    (folder / name).write_bytes(data)
    return _core.open_csv([str(folder / name)], ["x=a,b"])


Open = Callable[[Path, str, bytes], _core.Source]
# name → how it is opened, what it is, and whether a checksum guards the elements.
FILES: dict[str, tuple[Open, Callable[[], bytes], bool]] = {
    "rows.npy": (open_npy, npy, False),
    "stored.npz": (open_npy, lambda: npz(np.savez), True),
    "deflated.npz": (open_npy, lambda: npz(np.savez_compressed), True),
    "table.csv": (open_csv, table, False),
    "rgb.png": (open_images, lambda: images.png(images.random_image(9, 11), images.RGB), True),
    "alpha.png": (open_images, lambda: images.png(images.random_image(9, 8, 4), images.RGBA), True),
    "base.jpg": (open_images, lambda: jpeg(), False),
    "progressive.jpg": (open_images, lambda: jpeg(progressive=True), False),
}


def read(source: _core.Source) -> Records:
    return list(iter(source.next, None))


def equal(one: Records, other: Records) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(value, same)
        for record, peer in zip(one, other, strict=True)
        for value, same in zip(record, peer, strict=True)
    )


def attempt_all(name: str, folder: Path, cases: int) -> tuple[int, int]:
    """How many damaged files were refused, and how many gave records."""
    opened, make, guarded = FILES[name]
    rng = random.Random(name)
    whole = make()
    want = read(opened(folder, name, whole))
    assert want
    refused = 0
    for number in range(cases):
        data = damaged(rng, whole)
        try:
            got = read(opened(folder, name, data))
        except Error as error:
            refused += 1
            assert "\n" not in str(error) and name in str(error), (number, error)
        else:
            assert not guarded or equal(got, want), number
    return refused, cases - refused


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(tmp_path: Path, name: str) -> None:
    """In a process of its own with little memory: a crash is one of that process."""
    done = run_file(__file__, name, str(tmp_path), str(CASES))
    assert done.returncode == 0, done.stderr[-3000:]
    refused, read = map(int, done.stdout.split())
    assert refused > 0 and read > 0


# --- archives made to hurt ----------------------------------------------------------------------


def archive(**edits: int) -> bytes:
    """An archive with x.npy, then its directory's entry edited."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", npy())
    data = bytearray(out.getvalue())
    entry = data.index(b"PK\1\2")
    places = {"flags": (8, "H"), "method": (10, "H"), "sum": (16, "I"), "stored": (20, "I")}
    places |= {"size": (24, "I"), "offset": (42, "I")}
    for key, value in edits.items():
        at, code = places[key]
        struct.pack_into(f"<{code}", data, entry + at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a proper zip archive: it is too short"),
        (b"PK" * 40, "its end is missing"),
        (archive(flags=1), "member 'x.npy' of '.*' is encrypted"),
        (archive(method=14), "is packed by method 14"),
        (archive(sum=1), "is damaged: its checksum differs"),
        (archive(offset=1 << 31), "lies outside of the file"),
        (archive(offset=1), "is damaged: it has no header"),
        (archive(stored=1 << 30), "lies outside of the file"),
        (archive(size=0xFFFFFFFE), r"cannot have 4294967294 bytes in \d+"),
        (archive(size=0xFFFFFFFF), "its directory is damaged"),
        (archive(size=400), "should have 240 bytes of data .* but has 272"),
        (archive(size=20), "is not whole: its header is cut"),
        (archive(stored=10), "it cannot be unpacked"),
        (archive(method=0), "cannot have"),
    ],
)
def test_hostile_archives(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(Error, match=said) as caught:
        read(open_npy(tmp_path, "a.npz", data))
    assert "a.npz" in str(caught.value)


def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("x.npy", npy())
        with pytest.warns(UserWarning):
            file.writestr("x.npy", npy())
    with pytest.raises(Error, match="a member's name occurs twice"):
        _core.open_npy([str(tmp_path / "a.npz")])


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """Some kilobytes that unpack to many megabytes behind a small array."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    lead, zeros = npy(), 60 << 20
    body = packer.compress(lead + bytes(zeros)) + packer.flush()
    data = archive()
    header, entry = 30 + len("x.npy"), data.index(b"PK\1\2")
    out = bytearray(data[:header] + body + data[entry:])
    moved = header + len(body)
    struct.pack_into("<II", out, moved + 20, len(body), len(lead) + zeros)
    struct.pack_into("<I", out, len(out) - 6, moved)
    with pytest.raises(Error, match=f"should have 240 bytes of data .* but has {240 + zeros}"):
        read(open_npy(tmp_path, "a.npz", bytes(out)))


def wide(data: bytes) -> bytes:
    """The same archive with zip64's records, as if it were large."""
    entry, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    fields = bytearray(data[entry:end])
    stored, size = struct.unpack_from("<II", fields, 20)
    (offset,) = struct.unpack_from("<I", fields, 42)
    struct.pack_into("<II", fields, 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<I", fields, 42, 0xFFFFFFFF)
    extra = struct.pack("<HHQQQ", 1, 24, size, stored, offset)
    struct.pack_into("<H", fields, 30, len(extra))
    fields += extra
    where = entry + len(fields)
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(fields), entry)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, where, 1)
    last = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:entry] + bytes(fields) + end64 + locator + last


def test_large_archives(tmp_path: Path) -> None:
    data = wide(archive())
    with zipfile.ZipFile(io.BytesIO(data)) as peer:
        assert peer.read("x.npy") == npy()
    assert len(read(open_npy(tmp_path, "a.npz", data))) == 20
    rng = random.Random(2)
    refused = 0
    for _ in range(500):
        try:
            read(open_npy(tmp_path, "a.npz", damaged(rng, data)))
        except Error:
            refused += 1
    assert refused > 100


# --- images made to hurt ------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(1 << 30, 1 << 30), (65536, 65536), (0, 5)])
def test_pngs_of_no_possible_size(tmp_path: Path, width: int, height: int) -> None:
    data = b"\x89PNG\r\n\x1a\n" + images.header(width, height, 8, images.RGB)
    data += images.chunk(b"IDAT", zlib.compress(b"\0" * 100)) + images.chunk(b"IEND", b"")
    with pytest.raises(Error, match=r"large.png' (claims to be|is a damaged PNG)"):
        open_images(tmp_path, "large.png", data)


def test_jpegs_of_no_possible_size(tmp_path: Path) -> None:
    data = bytearray(jpeg())
    at = data.index(b"\xff\xc0")
    struct.pack_into(">HH", data, at + 5, 65000, 65000)
    with pytest.raises(Error, match="claims to be 65000 × 65000 pixels large"):
        open_images(tmp_path, "large.jpg", bytes(data))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    print(*attempt_all(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
