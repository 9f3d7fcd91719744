"""Our own requests for a view of one tensor: its figures, slices and a file of it.

A slice is cut and all figures are computed in the executor, however large the tensor is.
"""

from __future__ import annotations

import base64
import math
import os
import tempfile
from array import array
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypedDict

from opstep_server import npy, values
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.requests import tensor_slices
from opstep_server.dap.requests.tensor_slices import Subject
from opstep_server.dap.stops import FrameRef
from opstep_server.wire import debug_pb2 as pb, program_pb2

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from opstep_server.dap.adapter_session import AdapterSession

# The most rows, and the most columns, of a slice; fewer as text.
MOST_CELLS, MOST_TEXTS = 1024, 128
_BINS, _MOST_BINS = 40, 200
_PIECE = 16 << 20
# Bytes of a tensor that is sent to the client as a file.
MOST_SAVED = 32 << 20


class Summary(TypedDict):
    count: int
    zeros: int
    nan: int
    inf: int
    # Over the finite elements, when there are any.
    min: NotRequired[float]
    max: NotRequired[float]
    mean: NotRequired[float]
    std: NotRequired[float]


class Histogram(TypedDict):
    low: float
    high: float
    counts: list[int]


class TensorBody(TypedDict):
    type: str
    dtype: str
    shape: list[int]
    bytes: int
    summary: Summary
    histogram: NotRequired[Histogram]
    # Of the first element that is not finite.
    firstBad: NotRequired[list[int]]


class SliceBody(TypedDict):
    rows: int
    columns: int
    rowStart: int
    columnStart: int
    rowStep: int
    columnStep: int
    # Row-major, float32, little-endian, base64; or texts with all digits.
    data: NotRequired[str]
    texts: NotRequired[list[str]]


class SaveBody(TypedDict):
    # The path of the written file; empty when the client gets it as `data`, in base64.
    path: str
    bytes: int
    data: NotRequired[str]


class TensorRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    @request(When.STOPPED, Run.INSPECTION)
    async def opstepTensor_request(self, arguments: Arguments) -> TensorBody:
        look = await self._look(arguments)
        about = await look.figures()
        bins = min(arguments.natural("bins", _BINS), _MOST_BINS)
        each = values.element_bytes(about.dtype)
        body: TensorBody = {
            "type": values.type_name(about.dtype, about.dims),
            "dtype": values.dtype_name(about.dtype),
            "shape": list(about.dims),
            "bytes": each * values.count(about),
            "summary": _summary(about.summary),
        }
        if "min" in body["summary"] and bins:
            body["histogram"] = await look.histogram(about, bins)
        if about.summary.nan + about.summary.inf:
            body["firstBad"] = await look.first_bad()
        return body

    @request(When.STOPPED, Run.INSPECTION)
    async def opstepSlice_request(self, arguments: Arguments) -> SliceBody:
        look = await self._look(arguments)
        as_text = arguments.boolean("text", False)
        most = MOST_TEXTS if as_text else MOST_CELLS
        shape = look.subject.shape
        plane = tensor_slices.plane(arguments, shape)
        height = 1 if plane.rows is None else shape[plane.rows]
        width = 1 if plane.columns is None else shape[plane.columns]
        down = tensor_slices.run(arguments, "row", height, most)
        across = tensor_slices.run(arguments, "column", width, most)
        part = await look.slice(plane.subscripts(down, across), down.count * across.count)
        body: SliceBody = {
            "rows": down.count,
            "columns": across.count,
            "rowStart": down.start,
            "columnStart": across.start,
            "rowStep": down.step,
            "columnStep": across.step,
        }
        if part.dtype == program_pb2.FLOAT32 and not plane.turned and not as_text:
            body["data"] = base64.b64encode(part.data).decode()
            return body
        found = values.elements(part)
        if plane.turned:
            found = [each for j in range(down.count) for each in found[j :: down.count]]
        if as_text:
            body["texts"] = [_exact(element, part.dtype) for element in found]
        else:
            body["data"] = base64.b64encode(array("f", found).tobytes()).decode()
        return body

    @request(When.STOPPED, Run.INSPECTION)
    async def opstepSave_request(self, arguments: Arguments) -> SaveBody:
        text = arguments.string("expression").strip()
        wanted, overwrite = arguments.string("path", ""), arguments.boolean("overwrite", False)
        path = self._session.saves.path(wanted, overwrite)
        look = self._place(arguments, text)
        tensor = npy.tensor(text, await look.evaluate(text))
        if path:
            await npy.write(path, tensor, look.pieces(text, tensor))
            return {"path": path, "bytes": os.path.getsize(path)}
        size = values.element_bytes(tensor.dtype) * values.count(tensor)
        if size > MOST_SAVED:
            raise RequestError(
                f"{text} has {size} bytes, more than the {MOST_SAVED} that are sent: save a slice "
                "of it, or have the server write it with 'opstep serve --save-folder'"
            )
        with tempfile.TemporaryDirectory(prefix="opstep-save-") as folder:
            file = os.path.join(folder, "tensor.npy")
            await npy.write(file, tensor, look.pieces(text, tensor))
            with open(file, "rb") as written:
                data = written.read()
        return {"path": "", "bytes": len(data), "data": base64.b64encode(data).decode()}

    def _place(self, arguments: Arguments, text: str) -> _Look:
        handle = arguments.optional_integer("frameId")
        stops = self._session.stops
        ref = FrameRef(stops.newest(), 0) if handle is None else stops.frame(handle)
        return _Look(self._session, ref.stop.thread.id, ref.index or 0, Subject(text, "", ()))

    async def _look(self, arguments: Arguments) -> _Look:
        text = arguments.string("expression").strip()
        against = arguments.string("against", "").strip()
        look = self._place(arguments, text)
        shape = await look.shape(text)
        if against and (other := await look.shape(against)) != shape:
            raise RequestError(
                f"{text} has the shape {list(shape)} but {against} has {list(other)}: "
                "only tensors of one shape can be compared"
            )
        return _Look(look.session, look.thread, look.frame, Subject(text, against, shape))


class _Look:
    """Reads one tensor in one frame of a stop."""

    def __init__(self, session: AdapterSession, thread: int, frame: int, subject: Subject) -> None:
        self.session, self.thread, self.frame, self.subject = session, thread, frame, subject

    async def evaluate(self, text: str, most: int = 1) -> pb.Value:
        return await self.session.debugger.evaluate(
            self.thread, self.frame, text, max_elements=most
        )

    async def shape(self, text: str) -> tuple[int, ...]:
        found = await self.evaluate(f"shape({text})")
        return tuple(size.i for size in found.list.values)

    async def figures(self) -> pb.Tensor:
        """Type, shape and summary; a difference is merged from its parts."""
        whole: pb.Tensor | None = None
        texts = [text for _, text in self.subject.parts()]
        for text in texts if self.subject.against else [self.subject.cut()]:
            part = npy.tensor(text, value := await self.evaluate(text))
            if not part.HasField("summary"):
                part.summary.CopyFrom(_of_number(value))
            if whole is None:
                whole = pb.Tensor(dtype=part.dtype, dims=self.subject.shape, summary=part.summary)
            else:
                whole.summary.CopyFrom(_together(whole.summary, part.summary))
        assert whole is not None  # Even an empty tensor has a part.
        return whole

    async def histogram(self, about: pb.Tensor, bins: int) -> Histogram:
        low, high = about.summary.min, about.summary.max
        if about.dtype not in values.FLOATS and high - low < bins:
            # One bin for each number.
            low, high = low - 0.5, high + 0.5
            bins = round(high - low)
        elif low == high:
            bins = 1
        counts = [0] * bins
        for _, text in self.subject.parts():
            call = f"histogram({text}, {bins}, [{low!r}, {high!r}])"
            found = values.elements((await self.evaluate(call, bins)).tensor)
            counts = [a + int(b) for a, b in zip(counts, found, strict=True)]
        return {"low": low, "high": high, "counts": counts}

    async def first_bad(self) -> list[int]:
        for part, text in self.subject.parts():
            if (await self.evaluate(f"isfinite({text}).all()")).b:
                continue
            at = (await self.evaluate(f"argmin(isfinite({text}))")).i
            return part.position(at)
        return []

    async def slice(self, subscripts: list[str], count: int) -> pb.Tensor:
        """The slice with all its elements."""
        text = self.subject.cut(subscripts)
        value = await self.evaluate(text)
        part = npy.tensor(self.subject.text, value)
        if part.data:
            # Usually computed from float32, which has fewer digits.
            single = array("f", [value.f])
            if part.dtype == program_pb2.FLOAT64 and single[0] == value.f:
                return pb.Tensor(dtype=program_pb2.FLOAT32, data=single.tobytes())
            return part
        size = count * values.element_bytes(part.dtype)
        data, _ = await self.session.debugger.read_bytes(self.thread, self.frame, text, 0, size)
        return pb.Tensor(dtype=part.dtype, data=data)

    async def pieces(self, text: str, about: pb.Tensor) -> AsyncIterator[bytearray]:
        size = values.element_bytes(about.dtype) * values.count(about)
        for offset in range(0, size, _PIECE):
            piece = bytearray(min(_PIECE, size - offset))
            await self.session.debugger.read_bytes_into(
                self.thread, self.frame, text, offset, piece
            )
            yield piece


def _summary(found: pb.TensorSummary) -> Summary:
    body: Summary = {
        "count": found.count,
        "zeros": found.zeros,
        "nan": found.nan,
        "inf": found.inf,
    }
    # JSON has no infinity, which a sum of large numbers may be.
    if found.nan + found.inf < found.count:
        body["min"], body["max"] = found.min, found.max
        if math.isfinite(found.mean):
            body["mean"] = found.mean
        if math.isfinite(found.std):
            body["std"] = found.std
    return body


def _of_number(value: pb.Value) -> pb.TensorSummary:
    number = float(_number(value))
    if not math.isfinite(number):
        return pb.TensorSummary(count=1, nan=int(math.isnan(number)), inf=int(math.isinf(number)))
    return pb.TensorSummary(count=1, min=number, max=number, mean=number, zeros=int(number == 0))


def _number(value: pb.Value) -> values.Scalar:
    kind = value.WhichOneof("kind")
    return value.b if kind == "b" else value.i if kind == "i" else value.f


def _together(a: pb.TensorSummary, b: pb.TensorSummary) -> pb.TensorSummary:
    whole = pb.TensorSummary(
        count=a.count + b.count, nan=a.nan + b.nan, inf=a.inf + b.inf, zeros=a.zeros + b.zeros
    )
    some = [(s, n) for s in (a, b) if (n := s.count - s.nan - s.inf)]
    if not some:
        return whole
    total = sum(n for _, n in some)
    whole.min, whole.max = min(s.min for s, _ in some), max(s.max for s, _ in some)
    whole.mean = sum(s.mean * n for s, n in some) / total
    squares = sum(n * (s.std**2 + (s.mean - whole.mean) ** 2) for s, n in some)
    whole.std = math.sqrt(squares / total)
    return whole


def _exact(element: values.Scalar, dtype: program_pb2.DataType) -> str:
    if isinstance(element, float) and not math.isfinite(element):
        return str(element)
    wide = program_pb2.FLOAT32 if dtype == program_pb2.BFLOAT16 else dtype
    return values.exactly(element, wide)
