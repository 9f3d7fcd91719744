"""Writes expression_cases.inc: what NumPy says to expressions over the arrays of World."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

INF, NAN = np.inf, np.nan
ARRAYS = {
    "x": np.array([[1.5, -2, 3], [0.5, 0, 4]], np.float32),
    "bad": np.array([1, NAN, -INF, 4, INF, NAN], np.float32),
    "d": np.array([0.25, -8, 1e300], np.float64),
    "h": np.array([1, 0.333, -65504], np.float16),
    "i": np.array([7, -3, 0, 5], np.int32),
    "k": np.array([[1, 2, 3], [-4, 5, 6]], np.int64),
    "u": np.array([0, 200, 255], np.uint8),
    "b8": np.array([-128, 127, 3], np.int8),
    "m": np.array([[True, False, True], [False, False, True]]),
    "s": np.float32(2.5),
    "one": np.array([3.0], np.float32),
    "e": np.zeros((0, 3), np.float32),
    "t": (np.arange(24, dtype=np.float32) - 7).reshape(2, 3, 4),
}
NAMES = (
    *("any", "all", "min", "max", "mean", "sum", "std", "var", "argmax", "argmin"),
    *("median", "quantile", "round", "sort", "reshape"),
    *("isnan", "isinf", "isfinite", "abs", "sqrt", "exp", "log", "where"),
    *("shape", "size", "ndim"),
)
FUNCTIONS = {
    **{name: getattr(np, name) for name in NAMES},
    "norm": np.linalg.norm,
    "dtype": lambda a: a.dtype,
    "histogram": lambda *args: np.histogram(*args)[0],
    "percentile": np.percentile,
    "topk": lambda a, k, axis=-1: topk(np.asarray(a), k, axis),
}


def topk(a: np.ndarray[Any, Any], k: int, axis: int) -> list[Any]:
    """NumPy has none: torch's, with positions of the first of equal elements."""
    keys = np.where(np.isnan(a), INF, a) if a.dtype.kind == "f" else a.astype(np.float64)
    # By NaN first, then by size.
    nan = np.isnan(a) if a.dtype.kind == "f" else np.zeros(a.shape, bool)
    order = np.lexsort((-keys, ~nan), axis=axis)
    at = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(a, at, axis=axis), at]


CASES = """
1 + 2 * 3 - 4 // 3 ** 2
-7 // 2
-7 % 3
7.5 // -2
-7.5 % 2
2 ** -1
2 ** 62
True + True
~5 & 6 | 9 ^ 3
1 < 2 < 3
1 < 3 < 2
1 == 1.0
not 3
3 and 0.0
0 or "a"
"a" == "a" and "a" != "b" and "a" < "b"
(1, 2) == (1, 2)
(1, 2) + (3,)
[1, 2, 3][-1]
[1, 2, 3, 4][1::2]
len([1, 2, 3])
int(-2.7)
float(3)
bool(0.0)
abs(-3)
x
x + 1
x * 2.0
x / 3
x // 2
x % 2
-x % 0.75
x ** 2
x ** 0.5
2 ** x
x + x[0]
x + x[:, :1]
x - d[0]
x * k
x + i[1]
x + b8
h * 2
h + x[0]
h * h
h + u
h + i[0]
i + 1
i * 2.5
i / 2
i // 2
i % 3
i ** 2
-i
~i
i & 6
i | 8
i ^ 3
abs(i)
k + u
k % 5
k // -3
k * 9223372036854775807
u + u
u + b8
u + 55
-u
b8 * 2
b8 // -1
abs(b8)
b8 + m[0]
m + m
m * m
m & ~m
m | m[1]
m ^ True
m + 1
m / m[:, 2:]
m // True
~m
s
s + 1
s * 2.5
s > 2
s == 2.5
one > 2
one * s
(x > 1) & (x < 4)
x > 0.1
x == [1.5, 0, 4]
k >= x
1 < s < 3
bad > 0
bad == bad
isnan(bad)
isinf(bad)
isfinite(bad)
isnan(bad).any()
isnan(bad).all()
isnan(bad).sum()
isinf(bad).sum()
isfinite(bad).all()
isfinite(x).all()
isnan(x).any()
isnan(x.T[1:]).any()
isnan(bad).any(keepdims=True)
isnan(i).any()
isnan(e).all()
bad.max()
bad.min()
bad.argmax()
bad.sum()
x.max()
x.min()
x.max() - x.min()
x.mean()
x.sum()
x.std()
norm(x)
norm(x, axis=1)
norm(x - 1) / norm(x)
norm(i)
x.max(axis=0)
x.min(1)
x.sum(axis=-1, keepdims=True)
x.mean(axis=(0, 1))
x.std(axis=0)
x.argmax()
x.argmin(axis=1)
x.any()
x.all(axis=0)
t.sum(axis=(0, 2))
t.mean(axis=1)
t.max(axis=(1, 2), keepdims=True)
t.T.sum(axis=0)
t.argmin(axis=2)
t.std()
m.sum()
m.sum(axis=0)
m.mean()
m.any()
m.all()
m.any(axis=1)
m.max()
m[0].argmax()
i.mean()
i.max()
u.sum()
k.std()
h.mean()
e.sum()
e.sum(axis=0)
e.max(axis=1)
e.any()
max([3, 1, 2])
sum([[1, 2], [3, 4]], axis=0)
mean(3)
x[0]
x[1, 2]
x[-1, -1]
x[:, 1]
x[::-1]
x[:, ::-2]
x[..., 0]
x[0, ...]
t[1, :, 2]
t[..., -1]
t[0, 1:, ::2]
t[1][2][3]
t[:, [2, 0], 1:3]
t[0, 1, i > 0]
x[5:]
x[:, 5:1:-1]
x[-100:100, 1:2]
x[x > 1]
t[m]
t[m[0, 1:] ]
bad[isfinite(bad)]
k[[1, 0, -1]]
i[[0, 3]] + 1
x[int(s) - 1]
x[i[3] - 5]
x.T
x.T + 1
t.T
x.T[0]
x.shape
x.T.shape
x.shape[0] * 2
x.shape == (2, 3)
x.size
t.ndim
e.size
shape(x)
size(x)
ndim(x)
len(x)
sqrt(x)
sqrt(4)
exp(x)
log(d)
log(i)
abs(x)
abs(x - 2).max()
where(x > 1, x, 0)
where(m, 1, 2.5)
where(s > 1, k, i[0])
where(x > 1, x, d)
x @ x.T
x.T @ x
x @ x[0]
x[0] @ x[0]
k @ k.T
t @ t[0].T
t @ [1, 0, 0, 2]
m @ m.T
h @ h.T
where(isnan(bad), 0, bad).max() > 1e30
float(x[0, 0]) * 2
int(x.sum())
bool(one > 2) and x[0, 0] < 2
x.max() > 3 and 10 % 5 == 0
d.max() * 1e10
d * x[0]
histogram(x)
histogram(t, 7)
histogram(k, 3, (-1, 4))
histogram(one, 2)
histogram(x - x, 4)
histogram(m, 2)
percentile(x, 50)
percentile(x, [0, 12.5, 100])
percentile(t, (5, 25, 75, 95))
percentile(k, 33)
percentile(bad[:2], 50)
percentile(s, 10)
percentile(t, 30, axis=1)
percentile(t, [25, 75], 2)
percentile(x, 10, axis=0, keepdims=True)
quantile(x, 0.3)
quantile(t, [0.1, 0.9], axis=0)
quantile(t, [0.1, 0.9], axis=(0, 2))
quantile(k, 0.25, axis=-1)
quantile(bad, 0.5)
quantile(d, 0.5)
median(x)
median(x, axis=0)
median(t, axis=(0, 1))
median(t, axis=1, keepdims=True)
median(i)
median(u)
median(bad)
median(s)
var(x)
var(x, axis=1)
var(t, axis=(0, 2), keepdims=True)
var(k)
var(i, axis=0)
var(bad)
x.var()
round(x)
round(x * 0.3, 1)
round(d * 3.14159, 2)
round(d, -1)
round(t * 37, -2)
round(k * 15, -1)
round(i, 2)
round(bad)
round(h)
round(x[0] - 1)
reshape(x, (3, 2))
reshape(t, -1)
reshape(t, (4, -1, 2))
reshape(x.T, (2, 3))
reshape(x, 6)
reshape(e, (3, 0))
reshape(t[:, 1], (8,))
x.reshape((1, 6))
x.reshape(-1)
reshape(m, (3, 2)).sum(axis=0)
sort(x)
sort(x, axis=0)
sort(t[::-1], axis=0)
sort(t, axis=1)
sort(bad)
sort(k)
sort(u)
sort(h)
sort(m)
sort(e)
sort(x.T)
topk(x, 2)
topk(x, 1, axis=0)
topk(t, 2, axis=1)
topk(bad, 4)
topk(i, 3)
topk(k.T, 1)
topk(u, 0)
topk(x, 2)[0].max()
x.shape[0] + var(x) * 0
"""


def show(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(v) for v in value) + "]"
    if isinstance(value, np.ndarray) and value.ndim > 0:
        numbers = "".join(f" {float(v):.9g}" for v in value.ravel())
        return f"{value.dtype}{list(value.shape)}{numbers}"
    if isinstance(value, str):
        return f"s {value}"
    if isinstance(value, (bool, np.bool_)):
        return f"b {int(value)}"
    if isinstance(value, (int, np.integer)):
        return f"i {int(value)}"
    return f"f {float(value):.9g}"


def main() -> None:
    lines = ["// Made by expression_cases.py with NumPy.\n"]
    with np.errstate(all="ignore"):
        for text in CASES.strip().splitlines():
            result = eval(text, {}, {**ARRAYS, **FUNCTIONS})
            quoted = text.replace('"', '\\"')
            lines.append(f'{{"{quoted}", "{show(result)}"}},\n')
    Path(__file__).with_name("expression_cases.inc").write_text("".join(lines))


if __name__ == "__main__":
    main()
