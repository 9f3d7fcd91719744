"""Full tensors, a file each, with a line in `index.jsonl` for every existing file."""

from __future__ import annotations

import io
import json
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from opstep_server.taps.records import Batch
from opstep_server.taps.sinks import files
from opstep_server.taps.sinks.base import Key, Sink, SinkError

Array = npt.NDArray[Any]
# The names of types in safetensors.
_DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}


@dataclass(frozen=True)
class _Entry:
    file: Path
    size: int
    line: bytes


class TensorsSink(Sink):
    kind = "tensors"
    doc = (
        "Full tensors, a file each (TAP/OP/VARIABLE/step-….npy), and index.jsonl with a line for "
        "each of them. Other records are left out."
    )
    keys: ClassVar[tuple[Key, ...]] = (
        Key("format", str, "npy", "of the files: npy or safetensors"),
        Key("max_bytes", bytes, 0, "remove the oldest when all have more bytes; 0 for no limit"),
        Key("max_files", int, 0, "remove the oldest when there are more files; 0 for no limit"),
    )
    settings: Mapping[str, Any]

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        super().__init__(path, settings)
        if self.settings["format"] not in ("npy", "safetensors"):
            given = self.settings["format"]
            raise SinkError(f"'{given}' is not a format of tensors: write npy or safetensors")
        self._most_bytes = self.settings["max_bytes"] or float("inf")
        self._most_files = self.settings["max_files"] or float("inf")
        self._limited = bool(self.settings["max_bytes"] or self.settings["max_files"])
        self._index: files.Appended | None = None
        # Oldest first; kept only when there are limits.
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._removed = False

    def open(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        files.sweep(self.path)
        self._entries.clear()
        self._bytes = 0
        if self._limited:
            self._read_index()
        self._index = files.Appended(self.path / "index.jsonl")
        self._index.cut_line()

    def write(self, batch: Batch) -> None:
        times = np.datetime_as_string(batch.time.astype("M8[ns]"), unit="us")
        self._removed, refused = False, ""
        for index in sorted(batch.extras):
            tensor = batch.extras[index].tensor
            if tensor is None:
                continue
            if not self._add(batch, index, tensor, f"{times[index]}+00:00"):
                refused = f"{batch.sources[index].variable} has {tensor.nbytes} bytes"
        if self._removed:
            self._rewrite_index()
        if refused:
            raise SinkError(f"{refused}, more than max_bytes leaves for all tensors together")

    def flush(self) -> None:
        if self._index:
            self._index.check()

    def close(self) -> None:
        if self._index:
            self._index.close()
            self._index = None

    def _add(self, batch: Batch, index: int, tensor: Array, time: str) -> bool:
        """Writes a tensor; False when it is too large."""
        assert self._index is not None
        self._index.check()
        file = self._free_name(batch, index)
        source = batch.sources[index]
        about = {
            "file": file.relative_to(self.path).as_posix(),
            "tap": source.tap,
            "op": source.op,
            "type": source.type,
            "variable": source.variable,
            "slot": source.slot,
            "program": source.program,
            "process": source.process,
            "step": int(batch.step[index]),
            "iteration": int(batch.iteration[index]),
            "time": time,
            "dtype": str(tensor.dtype),
            "dims": list(tensor.shape),
        }
        npy = self.settings["format"] == "npy"
        header = _npy_header(tensor) if npy else _safetensors_header(tensor, about)
        size = len(header) + tensor.nbytes
        if size > self._most_bytes:
            return False
        self._make_room(size)
        with files.whole(file, self.path) as opened:
            opened.write(header)
            opened.write(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)
        line = json.dumps(about).encode() + b"\n"
        try:
            self._index.append(line)
        except (OSError, SinkError):
            file.unlink(missing_ok=True)
            raise
        if self._limited:
            self._entries.append(_Entry(file, size, line))
            self._bytes += size
        return True

    def _free_name(self, batch: Batch, index: int) -> Path:
        source = batch.sources[index]
        names = (source.tap, source.op, source.variable)
        folder = self.path.joinpath(*(files.safe_name(name) for name in names))
        name = f"step-{batch.step[index]:08d}"
        if batch.iteration[index]:
            name += f"-iteration-{batch.iteration[index]}"
        ending = self.settings["format"]
        file = folder / f"{name}.{ending}"
        number = int(batch.time[index])
        # Another process, or an earlier run, had the same step.
        while file.exists():
            file = folder / f"{name}-{number}.{ending}"
            number += 1
        return file

    def _make_room(self, size: int) -> None:
        """Removes old files to make room for one more."""
        while self._entries and (
            self._bytes + size > self._most_bytes or len(self._entries) >= self._most_files
        ):
            oldest = self._entries[0]
            oldest.file.unlink(missing_ok=True)
            self._entries.popleft()
            self._bytes -= oldest.size
            self._removed = True

    def _rewrite_index(self) -> None:
        self.close()
        with files.whole(self.path / "index.jsonl", self.path) as opened:
            opened.writelines(entry.line for entry in self._entries)
        self._index = files.Appended(self.path / "index.jsonl")

    def _read_index(self) -> None:
        """Reads the index without invalid lines and lines of missing files."""
        index = self.path / "index.jsonl"
        lines = index.read_bytes().splitlines(keepends=True) if index.exists() else []
        for line in lines:
            try:
                file = self.path / json.loads(line)["file"]
                size = file.stat().st_size
            except (ValueError, KeyError, TypeError, OSError):
                continue
            self._entries.append(_Entry(file, size, line))
            self._bytes += size
        if len(self._entries) < len(lines):
            self._rewrite_index()
            self.close()


def _npy_header(tensor: Array) -> bytes:
    header = io.BytesIO()
    kind = np.lib.format.dtype_to_descr(tensor.dtype)
    about = {"descr": kind, "fortran_order": False, "shape": tensor.shape}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def _safetensors_header(tensor: Array, about: Mapping[str, object]) -> bytes:
    """The header: one tensor named like the variable, and the index line as metadata."""
    known = {key: str(value) for key, value in about.items()}
    described = {
        "dtype": _DTYPES[str(tensor.dtype)],
        "shape": list(tensor.shape),
        "data_offsets": [0, tensor.nbytes],
    }
    header = json.dumps({"__metadata__": known, known["variable"]: described}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header
