"""Damaged record files: every intact chunk is read, the loss is counted, nothing crashes.

The test knows from the layout (docs/records.md) which chunks a cut or a flipped bit has hit.
"""

from __future__ import annotations

import random
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from opstep import Error, readers, records

CASES = 10_000
HEADER = 52
SYNC = b"\xf0op\xc5hunk"
RECORDS = 37


@dataclass
class Part:
    """A piece of the file as it was written."""

    kind: str  # header, data, index, tail
    begin: int
    end: int
    first: int = 0
    count: int = 0


def parts(data: bytes) -> list[Part]:
    (schema,) = struct.unpack_from("<I", data, 12)
    at = 24 + schema + 4
    found = [Part("header", 0, at)]
    while data[at : at + 8] == SYNC:
        kind, count, first = struct.unpack_from("<BxxxIQ", data, at + 16)
        schema, stored = struct.unpack_from("<II", data, at + 32)
        end = at + HEADER + schema + stored
        found.append(Part("data" if kind == ord("D") else "index", at, end, first, count))
        at = end
    found.append(Part("tail", at, at + 20))
    assert at + 20 == len(data)
    return found


def written(folder: Path, codec: str) -> tuple[bytes, list[Part]]:
    path = folder / f"{codec}.rec"
    fields = {"n": ("int64", []), "x": ("float32", [None, 3])}
    with records.Writer(path, fields, codec, chunk_bytes=160) as writer:
        for i in range(RECORDS):
            writer.write(n=i, x=np.full((i % 4, 3), i, np.float32))
    data = path.read_bytes()
    return data, parts(data)


def damaged(rng: random.Random, data: bytes) -> bytes:
    kind = rng.choice(["cut", "flip", "flips", "hole", "flips and cut"])
    out = bytearray(data)
    if "flip" in kind:
        flips = 1 if kind == "flip" else rng.randint(2, 12)
        for bit in rng.sample(range(len(data) * 8), flips):
            out[bit // 8] ^= 1 << bit % 8
    if "cut" in kind:
        del out[rng.randrange(len(data)) :]
    elif kind == "hole":
        begin = rng.randrange(len(data))
        del out[begin : begin + rng.randint(1, 300)]
    return bytes(out)


def intact(begin: int, end: int, data: bytes, now: bytes) -> bool:
    """All its bytes are there, at their place or moved by as much as a hole took."""
    moved = len(data) - len(now)
    there = now[begin:end] == data[begin:end]
    return there or (begin >= moved and now[begin - moved : end - moved] == data[begin:end])


@pytest.mark.parametrize("codec", ["zlib", "none"])
def test_cuts_and_flips(tmp_path: Path, codec: str) -> None:
    data, whole = written(tmp_path, codec)
    assert sum(part.kind == "data" for part in whole) >= 8
    path = tmp_path / "damaged.rec"
    rng = random.Random(8)
    kept_something = 0
    for case in range(CASES // 2):
        now = damaged(rng, data)
        path.write_bytes(now)
        good = [part for part in whole if intact(part.begin, part.end, data, now)]
        chunks = [part for part in good if part.kind == "data"]
        expected = [i for part in chunks for i in range(part.first, part.first + part.count)]
        kinds = {part.kind for part in good}
        if not kinds & {"header", "data", "index"}:
            with pytest.raises(Error, match=r"not a record file|no chunk is intact"):
                records.Reader(path)
            continue
        reader = records.Reader(path, damaged="skip")
        read = list(reader)
        assert [int(record["n"]) for record in read] == expected, case
        for record in read:
            n = int(record["n"])
            assert record["x"].shape == (n % 4, 3) and (record["x"] == n).all(), case
        # Which records there were is known from the index and from headers that are intact.
        known = RECORDS if "index" in kinds else 0
        for part in whole:
            if part.kind == "data" and intact(part.begin, part.begin + HEADER, data, now):
                known = max(known, part.first + part.count)
        lost = reader.verify()
        assert len(reader) == known and lost.records == known - len(expected), case
        assert lost.torn == ("index" not in kinds), case
        total = sum(part.kind == "data" for part in whole)
        if not lost.torn:
            assert lost.chunks == total - len(chunks), case
        assert lost.chunks <= total + 1, case
        # A tail counts behind its index only.
        kept = sum(p.end - p.begin for p in good if p.kind != "tail" or "index" in kinds)
        assert lost.bytes == len(now) - kept, case
        kept_something += bool(expected)
        if lost:
            with pytest.raises(
                Error, match=rf"damaged.rec' is damaged at byte \d+ of {len(now)}: "
            ):
                list(records.Reader(path))
        else:
            assert len(list(records.Reader(path))) == RECORDS
    assert kept_something > CASES // 4


@pytest.mark.parametrize("codec", ["zlib", "none"])
def test_cut_between_two_chunks(tmp_path: Path, codec: str) -> None:
    """Nothing of what is there is damaged, yet the file is torn."""
    data, whole = written(tmp_path, codec)
    path = tmp_path / "cut.rec"
    for part in whole:
        if part.kind == "data":
            path.write_bytes(data[: part.end])
            reader = records.Reader(path, damaged="skip")
            assert reader.lost == records.Lost(torn=True)
            assert [int(r["n"]) for r in reader] == list(range(part.first + part.count))


def test_a_lost_record_is_an_error_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    data, whole = written(tmp_path, "none")
    chunk = [part for part in whole if part.kind == "data"][2]
    path = tmp_path / "flipped.rec"
    path.write_bytes(data[: chunk.end - 1] + bytes([data[chunk.end - 1] ^ 1]) + data[chunk.end :])
    reader = records.Reader(path, damaged="skip")
    assert not reader.lost and len(reader) == RECORDS
    with pytest.raises(Error, match=f"record {chunk.first} of '.*flipped.rec' is lost"):
        reader[chunk.first]
    assert reader.lost == records.Lost(1, chunk.count, chunk.end - chunk.begin)
    assert reader[chunk.first + chunk.count]["n"] == chunk.first + chunk.count
    assert len(reader) == RECORDS


def test_damage_is_an_error_by_default_that_says_where_and_how_much(tmp_path: Path) -> None:
    data, whole = written(tmp_path, "none")
    chunk = [part for part in whole if part.kind == "data"][2]
    path = tmp_path / "flipped.rec"
    path.write_bytes(data[: chunk.end - 1] + bytes([data[chunk.end - 1] ^ 1]) + data[chunk.end :])
    reader = records.Reader(path)
    assert reader[0]["n"] == 0  # nothing of it is damaged
    told = (
        f"'{path}' is damaged at byte {chunk.begin} of {len(data)}: {chunk.count} records of "
        f'{RECORDS} in 1 chunk are lost; replace the file, or go on without them by damaged="skip"'
    )
    for _ in range(2):
        with pytest.raises(Error, match=re.escape(told)):
            list(reader)
    path.write_bytes(data[: chunk.begin])
    with pytest.raises(Error, match=r"and perhaps more: the index at its end is missing; replace"):
        records.Reader(path)
    with pytest.raises(Error, match="damaged is 'fail' or 'skip', not 'ignore'"):
        records.Reader(path, damaged="ignore")


def test_pipelines_fail_or_leave_out_and_count(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, whole = written(tmp_path, "none")
    chunk = [part for part in whole if part.kind == "data"][2]
    path = tmp_path / "flipped.rec"
    path.write_bytes(data[: chunk.end - 1] + bytes([data[chunk.end - 1] ^ 1]) + data[chunk.end :])
    with pytest.raises(Error, match=f"flipped.rec' is damaged at byte {chunk.begin} "):
        list(readers.records(path))
    assert str(path) not in records.left_out()
    for _ in range(2):
        assert len(list(readers.records(path, damaged="skip"))) == RECORDS - chunk.count
    lost = records.Lost(1, chunk.count, chunk.end - chunk.begin)
    assert records.left_out()[str(path)] == lost
    said = capfd.readouterr().err
    assert said.count("and left out") == 1
    assert f"damaged at byte {chunk.begin} " in said


def test_a_record_file_inside_a_record_is_not_taken_for_this_one(tmp_path: Path) -> None:
    inner, _ = written(tmp_path, "none")
    path = tmp_path / "outer.rec"
    with records.Writer(path, {"file": ("uint8", [None])}, "none", chunk_bytes=1) as writer:
        for _ in range(3):
            writer.write(file=np.frombuffer(inner, np.uint8))
    data = bytearray(path.read_bytes())
    second = [part for part in parts(bytes(data)) if part.kind == "data"][1]
    data[second.begin] ^= 1
    path.write_bytes(data)
    reader = records.Reader(path, damaged="skip")
    assert [record["file"].tobytes() for record in reader] == [inner, inner]
    assert reader.lost == records.Lost(1, 1, second.end - second.begin)


def test_headers_that_lie_take_no_memory(tmp_path: Path) -> None:
    """With right checksums, but sizes beyond the file, the limit, or what zlib can give."""
    data, whole = written(tmp_path, "zlib")
    chunk = whole[1]
    path = tmp_path / "lying.rec"
    lies = [(36, 2**32 - 1), (40, 2**32 - 1), (40, 200 << 20), (32, 2**32 - 1), (20, 2**32 - 1)]
    for place, value in [*lies, (20, 1 << 20), (20, 1)]:
        out = bytearray(data)
        struct.pack_into("<I", out, chunk.begin + place, value)
        sum_ = zlib.crc32(out[chunk.begin : chunk.begin + HEADER - 4])
        struct.pack_into("<I", out, chunk.begin + HEADER - 4, sum_)
        path.write_bytes(out)
        reader = records.Reader(path, damaged="skip")
        assert [int(r["n"]) for r in reader] == list(range(chunk.count, RECORDS))
        assert reader.lost.chunks == 1


def test_random_bytes(tmp_path: Path) -> None:
    rng = random.Random(5)
    path = tmp_path / "random.rec"
    for size in [0, 1, 7, 8, 23, 24, 52, 1000]:
        path.write_bytes(rng.randbytes(size))
        with pytest.raises(Error, match=r"'.*random.rec' is not a record file"):
            records.Reader(path)
