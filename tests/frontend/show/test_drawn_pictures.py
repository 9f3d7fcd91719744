"""Pictures for notebooks: what they show of what they were given, and that they stay small."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

import opstep
from harness.world import World
from opstep import layers, pictures

SVG = "{http://www.w3.org/2000/svg}"
LARGE = 150_000  # characters


def page(picture: pictures.Picture) -> ElementTree.Element:
    html = picture._repr_html_()
    assert len(html) < LARGE
    return ElementTree.fromstring(html)


def words(element: ElementTree.Element) -> list[str]:
    return ["".join(part.itertext()) for part in element.iter(f"{SVG}text")]


def lines(element: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """The places of each curve or cloud: of what is drawn, not of the grid."""
    drawn = [p for p in element.iter(f"{SVG}path") if p.get("stroke-linecap") == "round"]
    number = r"(-?[\d.]+) (-?[\d.]+)"
    return [[(float(x), float(y)) for x, y in re.findall(number, p.get("d"))] for p in drawn]


def pixels(image: ElementTree.Element) -> np.ndarray:
    """An image's bytes, as any reader of PNG would find them."""
    data = base64.b64decode(image.get("src").removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, {}
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size]) == (
            zlib.crc32(kind + body),
        )
        found[kind] = body
        at += 12 + size
    width, height = struct.unpack(">II", found[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(height, 1 + width * 3)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_a_curve_falls_as_its_values_do() -> None:
    picture = pictures.curve([4, 2, 1, 1], title="loss")
    assert repr(picture) == "<curve loss: 4 values, first 4, last 1>"
    (line,) = lines(page(picture))
    xs, ys = zip(*line, strict=True)
    assert list(xs) == sorted(set(xs))
    assert ys[0] < ys[1] < ys[2] == ys[3]  # down is larger in a picture
    assert ys[1] - ys[0] == pytest.approx(2 * (ys[2] - ys[1]), abs=0.2)
    assert {"loss", "2", "4"} <= set(words(page(picture)))


def test_a_peak_among_a_million_values_is_seen() -> None:
    values = np.random.default_rng(0).normal(size=1_000_000)
    values[654_321] = 1000
    picture = pictures.curve(values)
    (line,) = lines(page(picture))
    assert len(line) < 700
    top = min(y for _, y in line)
    assert sum(y < top + 100 for _, y in line) == 1


def test_curves_with_names_have_colours_and_gaps() -> None:
    root = page(pictures.curve({"<b>": [1, np.nan, 3], "other": [np.inf, 2]}))
    assert {"<b>", "other"} <= set(words(root))
    paths = [p for p in root.iter(f"{SVG}path") if p.get("stroke-linecap") == "round"]
    assert len({p.get("stroke") for p in paths}) == 2
    assert paths[0].get("d").count("M") == 2 and "L" not in paths[0].get("d")
    assert "2 not finite" in "".join(root.itertext())


@pytest.mark.parametrize(
    "values",
    [[], [7], [2, 2, 2], [np.nan] * 3, [1e308, -1e308], [1e-320, 2e-320], [True, False]],
    ids=str,
)
def test_a_curve_of_odd_values(values: list[float]) -> None:
    html = "".join(p.get("d") for p in page(pictures.curve(values)).iter(f"{SVG}path"))
    assert "nan" not in html and "inf" not in html


def test_points_are_equally_scaled() -> None:
    root = page(pictures.points([[0, 0], [1, 0], [0, 2], [np.nan, 1]]))
    (((x0, y0), (x1, _), (_, y2)),) = lines(root)
    assert x1 > x0 and y2 < y0
    assert y0 - y2 == pytest.approx(2 * (x1 - x0), abs=0.5)
    assert "4 points, 1 not finite" in "".join(root.itertext())


def test_a_million_points_are_thinned() -> None:
    picture = pictures.points(np.random.default_rng(0).normal(size=(1_000_000, 2)))
    assert len(lines(page(picture))[0]) <= 3000
    assert repr(picture) == "<points: 1,000,000 points, of which every 334th is drawn>"


def test_images_are_those_that_were_given() -> None:
    given = np.array([[[0, 1], [0.5, 0]], [[1, 1], [np.nan, 0]]], np.float32)
    root = page(pictures.images(given, labels=["<3>", 7], truth=["<3>", 8]))
    first, second = (pixels(image) for image in root.iter("img"))
    assert first[..., 0].tolist() == [[0, 255], [127, 0]]
    assert second[1, 0].tolist() == [255, 0, 255]
    labels = [
        "".join(span.itertext()) for span in root.iter("span") if "font-size" in str(span.attrib)
    ]
    assert labels == ["<3>", "7 is 8"]


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 1, 6, 5), (2, 3, 6, 5), (2, 6, 5, 3)])
def test_channels_stand_before_or_after_the_sizes(shape: tuple[int, ...]) -> None:
    images = list(page(pictures.images(np.zeros(shape))).iter("img"))
    assert [pixels(image).shape for image in images] == [(6, 5, 3)] * 2


def test_many_and_large_images() -> None:
    picture = pictures.images(np.zeros((5000, 8, 8)), labels=np.zeros((5000, 1), int))
    assert len(list(page(picture).iter("img"))) == 24
    assert repr(picture) == "<5,000 images of 8×8 pixels, of which 24 are shown>"
    noise = np.random.default_rng(0).random((1, 2000, 3000))
    (image,) = page(pictures.images(noise)).iter("img")
    assert max(pixels(image).shape) <= 128


def test_a_tensor_has_a_histogram_and_a_heat_map() -> None:
    picture = pictures.tensor([[-2.0, 0.0], [1.0, np.nan]], title="w")
    assert repr(picture) == "<tensor w: float64[2, 2] mean nan std nan [nan, nan], 1 not finite>"
    root = page(picture)
    assert words(root) == ["-2", "1"]
    (image,) = root.iter("img")
    (low, zero), (high, nan) = pixels(image).tolist()
    assert low[2] > low[0] and high[0] > high[2] and len(set(zero)) == 1
    assert nan == [255, 0, 255]


def test_one_nan_of_a_large_tensor_is_seen() -> None:
    values = np.ones((3000, 2000), np.float32)
    values[1234, 567] = np.nan
    (image,) = page(pictures.tensor(values)).iter("img")
    assert sum(pixel == [255, 0, 255] for row in pixels(image).tolist() for pixel in row) == 1


def test_a_programs_graph(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    hidden = layers.fc(x, size=3, name="<b>")
    layers.cond(layers.mean(hidden) > 0, lambda: hidden * 2, lambda: hidden * 3)
    root = page(pictures.graph(world.main))
    shown = words(root)
    assert {"program main", "x", "<b>.matmul", "<b>.w", "<b>.add"} <= set(shown)
    assert {"block 1 of cond_0", "block 2 of cond_0"} <= set(shown)
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert "#2 matmul → <b>.matmul.out float32[?, 3]" in titles
    # Every op is below those whose results it takes, and no two boxes lie upon each other.
    for block in root.iter(f"{SVG}svg"):
        boxes = [
            tuple(float(box.get(key)) for key in ("x", "y", "width"))
            for box in block.iter(f"{SVG}rect")
        ]
        for i, (left, top, width) in enumerate(boxes):
            for other, other_top, other_width in boxes[:i]:
                assert top != other_top or left >= other + other_width or other >= left + width
    heights = {
        group.find(f"{SVG}text").text: float(group.find(f"{SVG}rect").get("y"))
        for group in root.iter(f"{SVG}g")
        if group.find(f"{SVG}rect") is not None
    }
    assert heights["x"] < heights["<b>.matmul"] < heights["<b>.add"] < heights["cond_0"]


def test_a_large_program_is_a_table(world: World) -> None:
    x = layers.data("x", shape=[2])
    for _ in range(200):
        x = x + x
    html = pictures.graph(world.main)._repr_html_()
    assert "<svg" not in html and "<table" in html and "opstep show --dot" in html


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda: pictures.curve(["a"]), "[curve] only numbers can be drawn"),
        (lambda: pictures.curve({}), "[curve] there is nothing to draw"),
        (lambda: pictures.points([1, 2]), "[points] points are rows of x and y, of shape [n, 2]"),
        (lambda: pictures.tensor("abc"), "[tensor] only numbers can be drawn"),
        (lambda: pictures.graph(3), "[graph] a int has no program to draw: give a program"),
        (lambda: pictures.images(np.zeros((5, 64))), "not [n, 64]: reshape them"),
        (
            lambda: pictures.images(np.zeros((3, 8, 8)), labels=[1]),
            "[images] there are 3 images but 1 labels",
        ),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, sentence: str) -> None:
    with pytest.raises(opstep.Error, match=re.escape(sentence)):
        draw()
