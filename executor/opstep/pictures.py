"""Pictures for notebooks, of NumPy arrays: what the last line of a cell gives is shown.

    pictures.curve(losses, title="loss")            # or {"training": losses, "test": others}
    pictures.images(batch["x"], labels=guesses, truth=batch["label"])
    pictures.points(drawn)                          # rows of x and y
    pictures.tensor(machine.gradients["fc_0.w"])    # statistics, histogram and heat map
    pictures.graph(program)                         # its ops, and what goes from one to another

In a terminal each is one line. A picture of large data stays small: its caption says what was left
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from opstep._core import Error
from opstep.show import canvas
from opstep.show.canvas import COLOURS, Scale, count, line, numbers, svg, text

__all__ = ["Picture", "curve", "graph", "images", "points", "tensor"]

_WIDTH, _HEIGHT = 520, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 24, 28, 24
_BINS = 300  # of a long curve; each keeps its lowest and its highest value
_POINTS = 3000
_PIXELS = 128  # of an image, in each direction
_SAMPLE = 1_000_000  # elements that are looked at together
_ROWS, _COLUMNS = 48, 96  # of a heat map


class Picture:
    """HTML for a notebook, one line for a terminal."""

    def __init__(self, words: str, html: str) -> None:
        self._words, self._html = words, html

    def __repr__(self) -> str:
        return f"<{self._words}>"

    def _repr_html_(self) -> str:
        return self._html


def curve(values: Any, title: str = "") -> Picture:
    """Numbers over steps, from step 1 on; with a dict, several curves in one picture."""
    named = {k: numbers("curve", v).reshape(-1) for k, v in canvas.series("curve", values).items()}
    longest = max(len(v) for v in named.values())
    lost = sum(int((~np.isfinite(v)).sum()) for v in named.values())
    across = Scale(np.array([1.0, longest]), _LEFT, _WIDTH - _RIGHT)
    up = Scale(np.concatenate(list(named.values())), _HEIGHT - _BOTTOM, _TOP)
    parts = _axes(across, up, whole=True)
    for number, colour in zip(named.values(), _colours(named), strict=True):
        at = _kept(number)
        path = _path(across(at + 1.0), up(number[at]))
        parts.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6" '
            'stroke-linejoin="round" stroke-linecap="round"/>'
        )
    words = "; ".join(_curve_words(name, number) for name, number in named.items())
    caption = f"{words}{_not_finite(lost)}"
    parts += _head(title, named)
    label = f"curve {title}" if title else "curve"
    return Picture(f"{label}: {caption}", _figure(svg(_WIDTH, _HEIGHT, parts, label), caption))


def points(xy: Any, title: str = "") -> Picture:
    """Rows of x and y as points, equally scaled; with a dict, several clouds in one picture."""
    named = {k: numbers("points", v) for k, v in canvas.series("points", xy).items()}
    for rows in named.values():
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise Error(
                f"[points] points are rows of x and y, of shape [n, 2], not {list(rows.shape)}"
            )
    size = 320
    finite = {k: rows[np.isfinite(rows).all(axis=1)] for k, rows in named.items()}
    lost = sum(len(named[k]) - len(rows) for k, rows in finite.items())
    everything = np.concatenate(list(finite.values()))
    across = Scale(everything[:, 0], _LEFT, size + _LEFT)
    up = Scale(everything[:, 1], size + _TOP, _TOP)
    _same_unit(across, up)
    parts = _axes(across, up)
    share = -(-len(everything) // _POINTS)  # one of this many points is drawn
    for rows, colour in zip(finite.values(), _colours(named), strict=True):
        drawn = rows[:: max(share, 1)]
        path = "".join(
            f"M{x:.1f} {y:.1f}h0" for x, y in zip(across(drawn[:, 0]), up(drawn[:, 1]), strict=True)
        )
        parts.append(
            f'<path d="{path}" stroke="{colour}" stroke-width="3.5" stroke-linecap="round" '
            'stroke-opacity="0.55"/>'
        )
    parts += _head(title, named)
    caption = count(sum(len(rows) for rows in named.values()), "point")
    if share > 1:
        caption += f", of which every {share:,}th is drawn"
    caption += _not_finite(lost)
    label = f"points {title}" if title else "points"
    width, height = size + _LEFT + _RIGHT, size + _TOP + _BOTTOM
    return Picture(f"{label}: {caption}", _figure(svg(width, height, parts, label), caption))


def images(
    array: Any,
    labels: Sequence[Any] | np.ndarray | None = None,
    truth: Sequence[Any] | np.ndarray | None = None,
    limit: int = 24,
) -> Picture:
    """The first images of [n, height, width], [n, channels, height, width] or [n, height, width,
    channels], with 1 or 3 channels; dark is low, light is high.

    `labels` are shown below them; where `truth` is another label, both do, in red.
    """
    total = np.shape(array)[0] if np.ndim(array) else 0
    for name, given in (("labels", labels), ("truth", truth)):
        if given is not None and len(given) != total:
            raise Error(f"[images] there are {total} images but {len(given)} {name}")
    shown = _channels_last(numbers("images", np.asarray(array)[: max(limit, 1)]))
    size = "×".join(str(n) for n in shown.shape[1:3])
    shown = shown[:, :: -(-shown.shape[1] // _PIXELS), :: -(-shown.shape[2] // _PIXELS)]
    scale = Scale(shown, 0, 255)
    finite = np.isfinite(shown)
    bytes_ = scale(np.where(finite, shown, scale.low)).astype(np.uint8)
    bytes_[~finite.all(axis=-1)] = canvas.NOT_FINITE
    figures = [_image(one, *_words(i, labels, truth)) for i, one in enumerate(bytes_)]
    caption = f"{count(total, 'image')} of {size} pixels"
    if len(shown) < total:
        caption += f", of which {len(shown)} are shown"
    return Picture(caption, _figure("".join(figures), caption))


def tensor(array: Any, title: str = "") -> Picture:
    """Statistics of an array, a histogram of its elements and a heat map: blue is below zero, red
    above it, magenta not finite."""
    values = np.asarray(array)
    numbers("tensor", values.reshape(-1)[:1])
    words = f"{values.dtype}{list(values.shape)} {describe(values)}"
    label = f"tensor {title}" if title else "tensor"
    return Picture(f"{label}: {words}", _figure(tensor_html(values), f"{title} {words}".strip()))


def graph(program: Any) -> Picture:
    """The ops of a program, a model or a machine and what goes from one to another, block by
    block."""
    from opstep.program import Program
    from opstep.show.graph import draw

    drawn = getattr(program, "program", program)
    if not isinstance(drawn, Program):
        raise Error(f"[graph] a {type(program).__name__} has no program to draw: give a program")
    return Picture(repr(drawn)[1:-1], draw(drawn))


def describe(array: np.ndarray) -> str:
    """`mean 0.1 std 0.9 [-2, 2]`, or the only element."""
    if array.size == 1:
        return str(array.reshape(-1)[0])
    if not array.size:
        return "no elements"
    with np.errstate(all="ignore"):  # an Inf has no spread
        seen = [
            (piece.sum(), piece.min(), piece.max(), np.isfinite(piece).sum())
            for piece in _pieces(array)
        ]
        sums, lows, highs, finite = np.transpose(seen)
        mean = sums.sum() / array.size
        std = np.sqrt(sum(((piece - mean) ** 2).sum() for piece in _pieces(array)) / array.size)
    words = f"mean {mean:.4g} std {std:.4g} [{lows.min():.4g}, {highs.max():.4g}]"
    return words + _not_finite(array.size - int(finite.sum()))


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """The elements as float64, a million at a time: a large array is not copied."""
    flat = array.reshape(-1)
    for at in range(0, len(flat), _SAMPLE):
        yield numbers("tensor", flat[at : at + _SAMPLE])


def tensor_html(array: np.ndarray) -> str:
    """A histogram and a heat map, side by side; nothing if all elements are equal."""
    if array.size < 2 or (array == array.reshape(-1)[0]).all():
        return ""
    table = array.reshape(1, -1) if array.ndim < 2 else array.reshape(array.shape[0], -1)
    rows = canvas.shrunk(table, _ROWS, _COLUMNS)
    height, width = rows.shape
    side = max(1, min(12, 144 // width, 96 // height))  # pixels of an element
    label = f"heat map, {array.shape[0] if array.ndim else 1} rows"
    style = "image-rendering:pixelated;margin:0 0 0 12px;display:inline-block;vertical-align:middle"
    return (
        f'<span style="white-space:nowrap">{_histogram(array)}'
        f'<img src="{canvas.png(canvas.heat(rows))}" width="{width * side}" '
        f'height="{max(height * side, 12)}" alt="{label}" style="{style}"/></span>'
    )


def _histogram(array: np.ndarray) -> str:
    flat = array.reshape(-1)
    values = numbers("tensor", flat[:: max(1, len(flat) // _SAMPLE)])
    values = values[np.isfinite(values)]
    bins, width, height = 32, 128, 48
    scale = Scale(values, 0, bins)
    places = np.clip(scale(values).astype(np.int64), 0, bins - 1)
    counts = np.bincount(places, minlength=bins)
    tops = counts / max(counts.max(), 1) * (height - 14)
    unit = width / bins
    bars = "".join(
        f"M{i * unit:g} {height - 12}v{-max(top, 1):.1f}h{unit - 0.5:g}v{max(top, 1):.1f}z"
        for i, top in enumerate(tops)
        if counts[i]
    )
    small = ' font-size="9"'
    parts = [
        f'<path d="{bars}" fill="{COLOURS[0]}"/>',
        text(0, height - 2, f"{scale.low:.3g}", "start", small),
        text(width, height - 2, f"{scale.high:.3g}", "end", small),
    ]
    picture = svg(width, height, parts, "histogram")
    return picture.replace('style="', 'style="vertical-align:middle;', 1)


def _channels_last(array: np.ndarray) -> np.ndarray:
    """float64[n, height, width, 3]."""
    shape = list(array.shape)
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and shape[1] in (1, 3) and shape[3] not in (1, 3):
        array = np.moveaxis(array, 1, 3)
    if array.ndim != 4 or array.shape[3] not in (1, 3) or 0 in shape:
        raise Error(
            "[images] images have the shape [n, height, width], with 1 or 3 channels before or "
            f"after the sizes, not [{', '.join(['n', *map(str, shape[1:])])}]: reshape them"
        )
    return np.repeat(array, 3, axis=3) if array.shape[3] == 1 else array


def _words(
    i: int, labels: Sequence[Any] | np.ndarray | None, truth: Sequence[Any] | np.ndarray | None
) -> tuple[str, bool]:
    """The text below image i, and whether its label is wrong."""
    label = "" if labels is None else _word(labels[i])
    if truth is None:
        return label, False
    true = _word(truth[i])
    return (label, False) if label == true else (f"{label} is {true}".strip(), bool(label))


def _word(label: Any) -> str:
    """A label is often a row of one element."""
    return str(label.reshape(-1)[0] if isinstance(label, np.ndarray) and label.size == 1 else label)


def _image(pixels: np.ndarray, words: str, wrong: bool) -> str:
    height, width, _ = pixels.shape
    side = max(1, 56 // max(height, width))
    look = "color:#d62728;font-weight:bold" if wrong else "opacity:0.8"
    return (
        '<span style="display:inline-block;margin:3px;text-align:center">'
        f'<img src="{canvas.png(pixels)}" width="{width * side}" height="{height * side}" '
        f'alt="{escape(words)}" style="image-rendering:pixelated;margin:0"/>'
        f'<span style="display:block;font-size:11px;{look}">{escape(words)}</span></span>'
    )


def _figure(picture: str, caption: str) -> str:
    return (
        f'<div style="max-width:760px">{picture}'
        f'<div style="font-size:11px;opacity:0.7">{escape(caption)}</div></div>'
    )


def _kept(values: np.ndarray) -> np.ndarray:
    """Which values of a curve are drawn: with many, the lowest and highest of each stretch."""
    size = -(-len(values) // _BINS)
    if size <= 2:
        return np.arange(len(values))
    padded = np.full(_BINS * size, np.nan)
    padded[: len(values)] = values
    table = padded.reshape(_BINS, size)
    nan = ~np.isfinite(table)
    low = np.where(nan, np.inf, table).argmin(axis=1)
    high = np.where(nan, -np.inf, table).argmax(axis=1)
    starts = np.arange(_BINS) * size
    kept = np.concatenate([starts + low, starts + high, [0, len(values) - 1]])
    return np.unique(kept[kept < len(values)])


def _path(xs: np.ndarray, ys: np.ndarray) -> str:
    """A line with gaps where there is no number."""
    words, going = [], False
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if not np.isfinite(y):
            going = False
            continue
        words.append(f"L{x:.1f} {y:.1f}" if going else f"M{x:.1f} {y:.1f}h0")
        going = True
    return "".join(words)


def _same_unit(across: Scale, up: Scale) -> None:
    span = max(across.high - across.low, up.high - up.low) * 1.06
    for scale in (across, up):
        middle = (scale.low + scale.high) / 2
        scale.low, scale.high = middle - span / 2, middle + span / 2


def _axes(across: Scale, up: Scale, whole: bool = False) -> list[str]:
    """A grid with its numbers; with `whole` only whole numbers go across."""
    parts = []
    for value, y in ((v, float(up(np.array(v)))) for v in up.ticks()):
        parts += [line(across.start, y, across.end, y)]
        parts += [text(across.start - 6, y + 4, f"{value:.6g}", "end")]
    for value, x in ((v, float(across(np.array(v)))) for v in across.ticks()):
        if whole and value != round(value):
            continue
        parts += [line(x, up.start, x, up.end)]
        parts += [text(x, up.start + 15, f"{value:,.6g}" if whole else f"{value:.6g}", "middle")]
    return parts


def _head(title: str, named: dict[str, np.ndarray]) -> list[str]:
    """The title and, if there are several, the names with their colours."""
    parts = [text(_LEFT, 16, title, more=' font-size="13" font-weight="bold"')] if title else []
    x = _LEFT + (len(title) * 8 + 16 if title else 0)
    for name, colour in zip(named, _colours(named), strict=True):
        if name:
            parts.append(f'<path d="M{x} 12h14" stroke="{colour}" stroke-width="3"/>')
            parts.append(text(x + 18, 16, name))
            x += 34 + len(name) * 7
    return parts


def _colours(named: dict[str, np.ndarray]) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(len(named))]


def _curve_words(name: str, values: np.ndarray) -> str:
    start = f"{name}: " if name else ""
    if not len(values):
        return f"{start}no values"
    return f"{start}{count(len(values), 'value')}, first {values[0]:.4g}, last {values[-1]:.4g}"


def _not_finite(count: int) -> str:
    return f", {count:,} not finite" if count else ""
