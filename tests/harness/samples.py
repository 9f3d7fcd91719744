"""The samples of the op registry as arrays, and its NumPy oracles.

A sample is text such as `X=float32[2,3]{0.1,2} Y=[3] axis=1`: inputs with an optional dtype, shape
and optional range of values, and attributes. An input without a dtype means each dtype that its
slot takes. The range `{special}` means NaN, infinities, signed zeros and the like, `{rising:7}`
numbers that begin with 0, do not fall and end with 7. A variadic input is given once for each
variable. A size followed by `!` is known in every test.
`name=wanted` asks for an optional output.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import ml_dtypes
import numpy as np

Schema = dict[str, Any]

_TENSOR = re.compile(r"(?P<dtype>\w*)\[(?P<shape>[\d,!]*)\](?:\{(?P<range>[^}]*)\})?")
_FLOATS_16 = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
_NARROW_INTS = ["int8", "int16", "uint8"]
_SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-40, 3e38, -3e38, 7.25]


@dataclass(frozen=True)
class Case:
    """One op with inputs and attributes to try it on."""

    schema: Schema
    label: str
    inputs: dict[str, list[np.ndarray]]
    attrs: dict[str, Any]
    special: bool
    # slot → for each of its arrays the axes whose size must be known
    fixed: dict[str, list[set[int]]]
    # optional outputs
    wanted: set[str]

    @property
    def type(self) -> str:
        return self.schema["type"]

    @property
    def is_narrow(self) -> bool:
        """Whether kernels see its dtype as a wider one."""
        arrays = [array for arrays in self.inputs.values() for array in arrays]
        return any(a.dtype in _FLOATS_16 or a.dtype.name in _NARROW_INTS for a in arrays)

    def in_dtype(self, dtype: Any) -> Case:
        """The same case with its 16-bit floats in another dtype."""
        inputs = {slot: _convert(arrays, dtype) for slot, arrays in self.inputs.items()}
        return replace(self, inputs=inputs)

    def expected(self, **replaced: list[np.ndarray]) -> list[np.ndarray]:
        """The oracle's outputs, for the inputs or for others in their place.

        16-bit floats are computed in float32 and rounded once, as kernels do.
        """
        case = replace(self, inputs=self.inputs | replaced)
        arrays = [array for arrays in case.inputs.values() for array in arrays]
        kinds = {array.dtype for array in arrays if array.dtype in _FLOATS_16}
        if not kinds:
            return case._oracle()
        (kind,) = kinds
        values = case.in_dtype(np.float32)._oracle()
        # NumPy's result in 16 bits shows which outputs follow the inputs' dtype.
        likes = case.in_dtype(np.float16)._oracle()
        with np.errstate(over="ignore"):
            return [
                value.astype(kind) if like.dtype == np.float16 != value.dtype else value
                for value, like in zip(values, likes, strict=True)
            ]

    def _oracle(self) -> list[np.ndarray]:
        variadic = {slot["name"] for slot in self.schema["inputs"] if slot["variadic"]}
        names: dict[str, Any] = {"np": np}
        for slot, arrays in self.inputs.items():
            names[slot] = arrays if slot in variadic else arrays[0]
        for attr in self.schema["attrs"]:
            value = self.attrs.get(attr["name"], attr["default"])
            if attr["type"] == "dtype":
                value = None if value == "none" else np.dtype(value)
            names[attr["name"]] = value
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of nothing
            result = self._result(names)
        values = result if isinstance(result, tuple) else (result,)
        return [
            np.asarray(value) for value, made in zip(values, self._made(), strict=False) if made
        ]

    def _result(self, names: dict[str, Any]) -> Any:
        if not self.schema["oracle"]:
            raise ValueError(f"{self.type} has samples but no oracle")
        try:
            return _evaluate(self.schema["oracle"], names)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"the oracle failed on '{self.label}': {reason}") from error

    def _made(self) -> Iterator[bool]:
        """For each value of the oracle, whether the op makes it: optional ones only when wanted."""
        for slot in self.schema["outputs"]:
            yield not slot["optional"] or slot["name"] in self.wanted
        while True:
            yield True


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype in _FLOATS_16


def cases(schema: Schema) -> Iterator[Case]:
    """All cases of an op: each of its samples with every dtype that it allows."""
    slots = {slot["name"]: slot for slot in schema["inputs"]}
    attrs = {attr["name"]: attr for attr in schema["attrs"]}
    for sample in schema["samples"]:
        given = [_name_and_text(schema, sample, item) for item in sample.split()]
        optional = {slot["name"] for slot in schema["outputs"] if slot["optional"]}
        wanted = {name for name, text in given if name in optional and text == "wanted"}
        known = slots.keys() | attrs.keys() | wanted
        unknown = [name for name, _ in given if name not in known]
        if unknown:
            raise ValueError(
                f"{schema['type']}: sample '{sample}' names {unknown}, which it has not"
            )
        for dtype in _free_dtypes(given, slots):
            rng = np.random.default_rng(zlib.crc32(f"{sample} {dtype}".encode()))
            inputs: dict[str, list[np.ndarray]] = {}
            fixed: dict[str, list[set[int]]] = {}
            for name, text in given:
                if name in slots:
                    free = dtype if dtype in slots[name]["dtypes"] else slots[name]["dtypes"][0]
                    inputs.setdefault(name, []).append(_array(text, free, rng))
                    fixed.setdefault(name, []).append(_fixed(text))
            values = {n: _attr(attrs[n], text, rng) for n, text in given if n in attrs}
            label = f"{schema['type']} {sample}" + (f" ({dtype})" if dtype else "")
            yield Case(schema, label, inputs, values, "{special}" in sample, fixed, wanted)


def _name_and_text(schema: Schema, sample: str, item: str) -> tuple[str, str]:
    name, equals, text = item.partition("=")
    if not equals:
        raise ValueError(f"{schema['type']}: sample '{sample}': write NAME=VALUE, not '{item}'")
    return name, text


def _free_dtypes(given: list[tuple[str, str]], slots: dict[str, Any]) -> list[str]:
    for name, text in given:
        if name in slots and text.startswith("["):
            return slots[name]["dtypes"]
    return [""]


def _convert(arrays: list[np.ndarray], dtype: Any) -> list[np.ndarray]:
    return [a.astype(dtype) if a.dtype in _FLOATS_16 else a for a in arrays]


def _array(text: str, dtype: str, rng: np.random.Generator) -> np.ndarray:
    match = _TENSOR.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a tensor of a sample")
    kind = np.dtype(match["dtype"] or dtype)
    shape = [int(size.rstrip("!")) for size in match["shape"].split(",") if size]
    if match["range"] == "special":
        with np.errstate(over="ignore"):
            return np.resize(np.array(_SPECIAL), shape).astype(kind)
    if (match["range"] or "").startswith("rising:"):
        return _rising(shape[0], int(match["range"].removeprefix("rising:")), rng).astype(kind)
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    span = match["range"] or (
        "-1.5,1.5" if is_float(kind) else "0,9" if kind.kind == "u" else "-9,9"
    )
    low, high = (float(end) for end in span.split(","))
    if is_float(kind):
        return np.asarray(rng.uniform(low, high, shape)).astype(kind)
    return np.asarray(rng.integers(int(np.ceil(low)), int(high) + 1, shape)).astype(kind)


def _rising(size: int, last: int, rng: np.random.Generator) -> np.ndarray:
    if size == 1:
        return np.array([last])
    return np.concatenate([[0], np.sort(rng.integers(0, last + 1, size - 2)), [last]])


def _fixed(text: str) -> set[int]:
    sizes = text[text.index("[") + 1 : text.index("]")].split(",")
    return {axis for axis, size in enumerate(sizes) if size.endswith("!")}


def _attr(schema: dict[str, Any], text: str, rng: np.random.Generator) -> Any:
    if schema["type"] in ("dtype", "string"):
        return text
    if schema["type"] == "tensor":
        return _array(text, "float32", rng)
    return ast.literal_eval(text)


def _evaluate(source: str, names: dict[str, Any]) -> Any:
    """Runs Python source and returns the value of its last line, which is an expression."""
    body, last = _compiled(source)
    exec(body, names)
    return eval(last, names)


@functools.cache
def _compiled(source: str) -> tuple[CodeType, CodeType]:
    tree = ast.parse(source.strip())
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "an oracle ends with an expression"
    return (
        compile(tree, "<oracle>", "exec"),
        compile(ast.Expression(last.value), "<oracle>", "eval"),
    )
