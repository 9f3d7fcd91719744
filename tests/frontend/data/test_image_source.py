"""Folders of images as a source: order, labels, decoding, resizing, and what is left out."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import opstep
from harness import png_files as images
from harness.png_files import random_image, resized, write_png
from opstep import Error, _core, ops


def rest(source: _core.Source) -> list[list[np.ndarray]]:
    return list(iter(source.next, None))


def only(folder: Path, **options: Any) -> np.ndarray:
    """The one image of a folder."""
    options = {"labels": False, "dtype": "uint8", "layout": "hwc"} | options
    ((value,),) = rest(_core.open_images(str(folder), **options))
    return value


def jpeg(pixels: np.ndarray, **options: Any) -> bytes:
    out = BytesIO()
    Image.fromarray(pixels.squeeze()).save(out, "JPEG", **options)
    return out.getvalue()


# --- which files, in which order ----------------------------------------------------------------


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    """Three classes; image n of a class is of one colour, 10 * label + n."""
    for label, name in enumerate(["cat", "dog", "eel"]):
        for n in range(3):
            write_png(tmp_path / name / f"{n}.png", np.full((4, 5, 3), 10 * label + n, np.uint8))
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "cat" / "._0.png").write_text("what another system leaves behind")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "top.png").write_text("no class")
    return tmp_path


def seen(source: _core.Source) -> list[tuple[int, int]]:
    return [(int(image.flat[0]), int(label[0])) for image, label in rest(source)]


ALL = [(10 * label + n, label) for label in range(3) for n in range(3)]


def test_folders_are_classes(animals: Path) -> None:
    source = _core.open_images(str(animals), dtype="uint8", layout="hwc")
    assert source.fields() == [("image", "uint8", [4, 5, 3]), ("label", "int64", [1])]
    assert source.size() == 9
    assert seen(source) == ALL
    source.restart(1)
    assert source.skip(4) == 4
    assert seen(source) == ALL[4:]
    assert source.skip(1) == 0 and source.left_out() == 0


def test_classes_can_be_chosen(animals: Path) -> None:
    source = _core.open_images(str(animals), classes=["eel", "cat"], dtype="uint8")
    assert source.fields()[0] == ("image", "uint8", [3, 4, 5])
    want = [(20, 0), (21, 0), (22, 0), (0, 1), (1, 1), (2, 1)]
    assert seen(source) == want


def test_a_folder_without_classes(tmp_path: Path) -> None:
    for name in ["b.PNG", "a.png", "c.Jpeg", "B.png"]:  # of one size, whatever they are called
        write_png(tmp_path / name, np.full((2, 2, 3), ord(name[0]), np.uint8))
    write_png(tmp_path / "sub" / "x.png", np.zeros((9, 9, 3), np.uint8))
    source = _core.open_images(str(tmp_path), labels=False, dtype="uint8")
    assert source.fields() == [("image", "uint8", [3, 2, 2])]
    assert [chr(image.flat[0]) for (image,) in rest(source)] == ["B", "a", "b", "c"]


def test_folders_that_hold_nothing(tmp_path: Path) -> None:
    folder = str(tmp_path)
    cases: list[tuple[str, dict[str, Any], str]] = [
        (f"{folder}/gone", {}, "cannot read the folder '.*gone': No such file"),
        (folder, {}, "has no sub-folders, one for each class; .* say labels=False"),
        (folder, {"labels": False}, "has no .png or .jpg files$"),
        (folder, {"classes": ["cat"]}, "cannot read the folder '.*cat': No such file"),
        ("a\0b", {}, "a path cannot hold a zero byte"),
    ]
    for path, options, said in cases:
        with pytest.raises(Error, match=said):
            _core.open_images(path, **options)
    (tmp_path / "cat").mkdir()
    with pytest.raises(Error, match=r"has no .png or .jpg files in its sub-folders"):
        _core.open_images(folder)


# --- decoding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pngs(tmp_path: Path, channels: int) -> None:
    """To the last bit; what is transparent keeps its colour."""
    pixels = random_image(13, 7, channels)
    write_png(tmp_path / "x.png", pixels)
    color = pixels[..., :3] if channels > 2 else np.repeat(pixels[..., :1], 3, 2)
    np.testing.assert_array_equal(only(tmp_path), color)
    one = images.gray(color) if channels > 2 else pixels[..., :1]
    assert np.abs(only(tmp_path, channels=1) - one).max() <= 0.501
    whole = only(tmp_path, dtype="float32")
    np.testing.assert_array_equal(whole, color.astype(np.float32) / np.float32(255))
    planes = only(tmp_path, dtype="float32", layout="chw")
    np.testing.assert_array_equal(planes, whole.transpose(2, 0, 1))


def test_pngs_with_a_palette_and_of_16_bits(tmp_path: Path) -> None:
    palette, index = random_image(1, 9)[0], np.random.default_rng(1).integers(0, 9, (6, 5, 1))
    path = tmp_path / "x.png"
    path.write_bytes(images.png(index.astype(np.uint8), images.PALETTE, palette))
    np.testing.assert_array_equal(only(tmp_path), palette[index[..., 0]])
    deep = random_image(6, 5).astype(np.uint16) * 257
    path.write_bytes(images.png(deep, images.RGB))
    np.testing.assert_array_equal(only(tmp_path), deep // 257)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 2}])
def test_jpegs(tmp_path: Path, options: dict[str, Any]) -> None:
    y, x = np.mgrid[0:37, 0:50]
    smooth = np.stack([4 * x, 5 * y, 2 * x + 2 * y], 2).astype(np.uint8)
    for pixels in (smooth, smooth[..., :1]):
        # Bytes decide, not the file's name.
        (tmp_path / "x.png").write_bytes(jpeg(pixels, quality=95, **options))
        with Image.open(tmp_path / "x.png") as peer:
            want = np.asarray(peer.convert("RGB")).astype(int)
        assert np.abs(only(tmp_path).astype(int) - want).max() <= 3
        assert np.abs(only(tmp_path).astype(int) - pixels).max() <= 16
        one = only(tmp_path, channels=1).astype(float)
        assert one.shape == (37, 50, 1) and np.abs(one - images.gray(want)).max() <= 4


def test_jpegs_of_inks(tmp_path: Path) -> None:
    rgb = np.full((16, 16, 3), (200, 100, 50), np.uint8)
    Image.fromarray(rgb).convert("CMYK").save(tmp_path / "x.jpg", quality=100)
    assert np.abs(only(tmp_path).astype(int) - rgb).max() <= 3


# --- resizing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(8, 8), (16, 20), (3, 5), (1, 1), (33, 4), (7, 41)])
def test_resizing(tmp_path: Path, size: tuple[int, int]) -> None:
    pixels = random_image(16, 20, seed=4)
    write_png(tmp_path / "x.png", pixels)
    height, width = size
    want = resized(pixels, height, width)
    got = only(tmp_path, height=height, width=width, dtype="float32", layout="chw")
    np.testing.assert_allclose(got.transpose(1, 2, 0) * 255, want, atol=1e-3)
    whole = only(tmp_path, height=height, width=width)
    assert np.abs(whole - want).max() <= 0.501
    peer = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR)
    assert np.abs(whole.astype(int) - np.asarray(peer)).max() <= 2


def test_images_of_several_sizes(tmp_path: Path) -> None:
    write_png(tmp_path / "a.png", random_image(4, 4))
    write_png(tmp_path / "b.png", random_image(4, 6))
    source = _core.open_images(str(tmp_path), labels=False, height=5, width=3, channels=1)
    assert source.fields() == [("image", "float32", [1, 5, 3])]
    assert len(rest(source)) == 2
    for on_error in ("fail", "skip"):  # it is not damaged
        source = _core.open_images(str(tmp_path), labels=False, on_error=on_error)
        assert source.next() is not None
        with pytest.raises(Error, match=r"'.*b.png' is 4 × 6 pixels large but others are 4 × 4; g"):
            source.next()


# --- damage -------------------------------------------------------------------------------------


def test_damaged_images_are_errors_or_left_out(animals: Path) -> None:
    first, later = animals / "cat" / "0.png", animals / "dog" / "1.png"
    for path in (first, later):
        path.write_bytes(path.read_bytes()[:45])
    (animals / "eel" / "3.jpg").write_text("text")
    with pytest.raises(Error, match=r"'.*cat/0.png' is a damaged PNG: "):
        rest(_core.open_images(str(animals), height=2, width=2))
    source = _core.open_images(str(animals), dtype="uint8", on_error="skip")
    whole = [pair for pair in ALL if pair not in ((0, 0), (11, 1))]
    for step in range(3):
        assert seen(source) == whole
        assert source.left_out() == 3
        source.restart(step)
        assert source.left_out() == 0
    assert source.skip(5) == 5
    assert seen(source) == whole[5:]
    assert source.size() == 10


def test_nothing_whole_is_left(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.png").write_text("text")
    with pytest.raises(Error, match=r"'.*0.png' is neither a PNG nor a JPEG"):
        _core.open_images(str(tmp_path), labels=False)
    with pytest.raises(Error, match=r"none of the 3 images beside '.*0.png' can be decoded"):
        _core.open_images(str(tmp_path), labels=False, on_error="skip")


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"height": 4}, "give height and width from 1 to 16384, or neither"),
        ({"height": -4, "width": -4}, "cannot be resized to -4 × -4"),
        ({"height": 1 << 62, "width": 4}, "cannot be resized"),
        ({"height": 16384, "width": 16384}, "cannot be resized"),
        ({"channels": 2}, "channels is 2"),
        ({"dtype": "float64"}, "dtype is float64"),
        ({"layout": "whc"}, "layout is 'whc'"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"labels": False, "classes": ["a"]}, "classes are given"),
        ({"classes": ["../a"]}, "'../a', which is not the name of a sub-folder"),
        ({"classes": ["a", "a"]}, "'a' twice"),
    ],
)
def test_options_that_mean_nothing(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(Error, match=said):
        _core.open_images(str(tmp_path), **options)
    sentence = rf"\[read_images\] .*{said}.*\(test_image_source.py:\d+"
    with (
        opstep.program_guard(opstep.Program(), opstep.Program()),
        pytest.raises(Error, match=sentence),
    ):
        ops.read_images(path=str(tmp_path), **options)
