"""Text for values, the same in the CLI and in editors."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Sequence

from opstep_server.wire import debug_pb2 as pb, program_pb2

# A vector up to this long is shown with its elements.
SMALL = 8
# Of an op with more outputs only the first are shown.
_OUTPUTS = 4

# By dtype: the struct format of one element, and its bytes. bfloat16 is read by hand.
_FORMATS = {
    program_pb2.FLOAT32: ("f", 4),
    program_pb2.FLOAT64: ("d", 8),
    program_pb2.FLOAT16: ("e", 2),
    program_pb2.BFLOAT16: ("H", 2),
    program_pb2.INT8: ("b", 1),
    program_pb2.INT16: ("h", 2),
    program_pb2.INT32: ("i", 4),
    program_pb2.INT64: ("q", 8),
    program_pb2.UINT8: ("B", 1),
    program_pb2.BOOL: ("?", 1),
}
FLOATS = (
    program_pb2.FLOAT32,
    program_pb2.FLOAT64,
    program_pb2.FLOAT16,
    program_pb2.BFLOAT16,
)

Scalar = bool | int | float


def describe(value: pb.Value, dtype: program_pb2.DataType | None = None) -> str:
    """One line: `float32[128, 10] mean 0.01 std 0.9 [-2.1, 3.4]`.

    With a dtype, elements are shown as bits of that type; a tensor's elements have their own type.
    """
    kind = value.WhichOneof("kind")
    if kind == "tensor":
        return _describe_tensor(value.tensor, dtype is not None)
    if kind == "b":
        return str(value.b)
    if kind == "i":
        return str(value.i) if dtype is None else bits(value.i, dtype)
    if kind == "f":
        return number(value.f) if dtype is None else bits(value.f, dtype)
    if kind == "s":
        return repr(value.s)
    if kind == "absent":
        return f"<{value.absent}>"
    if kind == "list":
        return "[" + ", ".join(describe(item, dtype) for item in value.list.values) + "]"
    return "<no value>"


def in_full(value: pb.Value) -> str:
    """As `describe`, followed by all elements if they came along and do not fit on its line."""
    text = describe(value)
    if value.WhichOneof("kind") != "tensor":
        return text
    tensor = value.tensor
    known = elements(tensor)
    if len(tensor.dims) == 0 or len(known) != math.prod(tensor.dims) or _in_line(tensor):
        return text
    return text + "\n" + _nested([number(element) for element in known], list(tensor.dims))


def as_array(tensor: pb.Tensor) -> str:
    """Python code for the same tensor, which must have come with all its elements."""
    # NumPy has no bfloat16; a float32 holds each of its values.
    wide = program_pb2.FLOAT32 if tensor.dtype == program_pb2.BFLOAT16 else tensor.dtype
    texts = [exactly(element, wide) for element in elements(tensor)]
    head = "np.array("
    nested = _nested(texts, list(tensor.dims), len(head)) if tensor.dims else texts[0]
    name = dtype_name(wide)
    return f"{head}{nested}, dtype=np.{'bool_' if name == 'bool' else name})"


def as_number(value: float) -> str:
    """The number with all its digits; as float32, when that is exact, they are fewer."""
    try:
        single = struct.unpack("f", struct.pack("f", value))[0] == value
    except OverflowError:
        single = False
    return exactly(value, program_pb2.FLOAT32 if single else program_pb2.FLOAT64)


def type_name(dtype: program_pb2.DataType, dims: Sequence[int]) -> str:
    """`float32[?, 10]`: -1 is a size known only at run time. Only a reader has no dtype."""
    if dtype == program_pb2.DATA_TYPE_UNSPECIFIED:
        return "reader"
    sizes = ", ".join("?" if size < 0 else str(size) for size in dims)
    return f"{dtype_name(dtype)}[{sizes}]"


def outputs_text(op: pb.OpInfo) -> str:
    """`fc_0.out float32[128, 32]`; of many outputs, as loops have, the first."""
    told = [f"{var.name} {type_name(var.dtype, var.dims)}" for var in op.outputs]
    if len(told) > _OUTPUTS:
        told[_OUTPUTS - 1 :] = [f"… ({len(told)} in all)"]
    return ", ".join(told)


def tensor_type(tensor: pb.Tensor) -> str:
    """`float32[7, 16]`, or `ragged float32[7 rows in 3 sequences, 16]`."""
    if not tensor.sequences:
        return type_name(tensor.dtype, tensor.dims)
    *outer, inner = tensor.sequences
    text = f"{tensor.dims[0]} rows in {inner.count} sequences"
    text += "".join(f" in {level.count} outer ones" for level in reversed(outer))
    sizes = ", ".join([text, *map(str, tensor.dims[1:])])
    return f"ragged {dtype_name(tensor.dtype)}[{sizes}]"


def lengths(tensor: pb.Tensor) -> str:
    """`lengths 3, 0, 4`: the lengths of the first sequences."""
    inner = tensor.sequences[-1]
    texts = [str(length) for length in inner.lengths[:SMALL]]
    more = [] if inner.count <= len(texts) else ["…"]
    return "lengths " + ", ".join(texts + more)


def dtype_name(dtype: program_pb2.DataType) -> str:
    if dtype not in program_pb2.DataType.values():
        return f"dtype {int(dtype)}"
    return program_pb2.DataType.Name(dtype).lower()


def dtype_of(name: str) -> program_pb2.DataType:
    """The type with this `dtype_name`."""
    return next(each for each in _FORMATS if dtype_name(each) == name)


def element_bytes(dtype: program_pb2.DataType) -> int:
    return _FORMATS[dtype][1] if dtype in _FORMATS else 0


def count(tensor: pb.Tensor) -> int:
    """The number of elements, whether or not they came along."""
    return math.prod(tensor.dims)


def elements(tensor: pb.Tensor) -> list[Scalar]:
    """The elements that came with the tensor, in row-major order."""
    if tensor.dtype not in _FORMATS:
        return []
    code, size = _FORMATS[tensor.dtype]
    count = len(tensor.data) // size
    found = struct.unpack(f"<{count}{code}", tensor.data[: count * size])
    if tensor.dtype == program_pb2.BFLOAT16:
        # A bfloat16 is the upper half of a float32.
        return list(
            struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(h << 16 for h in found)))
        )
    return list(found)


def number(value: Scalar) -> str:
    """Four digits; whole numbers and truth values in full."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def bits(value: Scalar, dtype: program_pb2.DataType) -> str:
    """`0x7fc00000`: the element as it lies in memory."""
    if dtype not in _FORMATS:
        return number(value)
    code, _ = _FORMATS[dtype]
    if dtype == program_pb2.BFLOAT16:
        return f"0x{struct.pack('>f', value)[:2].hex()}"
    return f"0x{struct.pack(f'>{code}', value).hex()}"


def exactly(value: Scalar, dtype: program_pb2.DataType) -> str:
    """The shortest text that gives this element when it is read."""
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    code, _ = _FORMATS[dtype]
    for digits in range(1, 10) if code != "d" and value else ():
        text = f"{value:.{digits}g}"
        with contextlib.suppress(OverflowError):  # Rounded up from the largest number.
            if struct.pack(code, float(text)) == struct.pack(code, value):
                return text
    return repr(value)


def _describe_tensor(tensor: pb.Tensor, raw: bool) -> str:
    parts = [tensor_type(tensor)]
    if tensor.sequences and tensor.sequences[-1].count:
        parts.append(lengths(tensor))
    if _in_line(tensor):
        known = elements(tensor)
        texts = [bits(e, tensor.dtype) if raw else number(e) for e in known]
        parts.append(_nested(texts, list(tensor.dims)) if tensor.dims else texts[0])
    elif tensor.HasField("summary"):
        parts += _describe_summary(tensor.dtype, tensor.summary)
    return " ".join(parts)


def _describe_summary(dtype: program_pb2.DataType, summary: pb.TensorSummary) -> list[str]:
    if summary.count == 0:
        return ["empty"]
    if dtype == program_pb2.BOOL:
        return [f"{summary.count - summary.zeros} of {summary.count} True"]
    parts = []
    if summary.nan + summary.inf < summary.count:
        low, high = summary.min, summary.max
        if dtype not in FLOATS:
            low, high = int(low), int(high)
        parts += [f"mean {number(summary.mean)}", f"std {number(summary.std)}"]
        parts.append(f"[{number(low)}, {number(high)}]")
    if summary.nan:
        parts.append(f"{summary.nan} NaN")
    if summary.inf:
        parts.append(f"{summary.inf} Inf")
    return parts


def _in_line(tensor: pb.Tensor) -> bool:
    """Whether its elements are there and fit on one line."""
    count = math.prod(tensor.dims)
    shape_fits = len(tensor.dims) <= 1 or count == 1
    return shape_fits and 0 < count <= SMALL and len(elements(tensor)) == count


def _nested(flat: Sequence[str], dims: list[int], indent: int = 0) -> str:
    if len(dims) <= 1:
        return "[" + ", ".join(flat) + "]"
    size = math.prod(dims[1:])
    rows = [flat[i * size : (i + 1) * size] for i in range(dims[0])]
    join = ",\n" + " " * (indent + 1)
    return "[" + join.join(_nested(row, dims[1:], indent + 1) for row in rows) + "]"
