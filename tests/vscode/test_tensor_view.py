"""The tensor view in a real VS Code: colours, exact values, comparing, following the stops."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness.markers import line_with
from harness.patience import until
from opstep import datasets

if TYPE_CHECKING:
    from workbench import Editor, Workbench

SCRIPT = "digits_mlp.py"
DARKEST, LIGHTEST = (68, 1, 84), (253, 231, 37)
NAN = (255, 0, 220)


def batches() -> np.ndarray:
    """The batches that the example feeds, in that order."""
    digits, _ = datasets.digits("train", batch=1437)()
    return digits["x"].reshape(-1, 64)[: 1437 // 32 * 32].reshape(-1, 32, 64)


def stop_at(workbench: Workbench, script: Path, text: str) -> tuple[Editor, int]:
    line = line_with(script, text)
    editor = workbench.open(script.name)
    workbench.widen_side_bar(420)
    editor.click_gutter(line)
    workbench.press("F5")
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
    return editor, line


@pytest.mark.both_versions
def test_the_digits_as_colours_and_values(workbench: Workbench, folder: Path) -> None:
    from tensor_view import TensorView

    fed = batches()
    stop_at(workbench, folder / SCRIPT, "layers.fc(x")
    workbench.expand_scope("Inputs")
    view = TensorView.open_from_variables(workbench, "(x)", "x")

    # Figures are those of the batch.
    until("the heat map", lambda: view.shape() == (32, 64))
    figures = view.statistics()
    assert (figures["min"], figures["max"], figures["NaN"]) == ("0", "1", "none")
    assert float(figures["mean"]) == pytest.approx(fed[0].mean(), rel=1e-4)
    assert view.frame.locator(".histogram rect").count() == 40

    # Each cell has its value's colour.
    pixels = view.pixels()
    assert {pixels[i][j] for i, j in np.argwhere(fed[0] == 0)} == {DARKEST}
    assert {pixels[i][j] for i, j in np.argwhere(fed[0] == 1)} == {LIGHTEST}
    by_value = {float(v): pixels[i][j] for (i, j), v in np.ndenumerate(fed[0])}
    assert all(by_value[float(v)] == pixels[i][j] for (i, j), v in np.ndenumerate(fed[0]))
    assert len(set(by_value.values())) == len(by_value) == 17
    greens = [by_value[value][1] for value in sorted(by_value)]
    assert greens == sorted(greens)

    # The table has the exact values, near and far.
    view.tab("Values")
    for row, column in ((0, 0), (3, 2), (5, 4)):
        assert np.float32(view.value(row, column)) == fed[0][row, column]
    view.frame.locator(".table").press("Control+End")
    assert np.float32(view.value(31, 63)) == fed[0][31, 63]

    # It follows the stops: the next batch, and what is other than before.
    view.tab("Heat Map")
    view.compare_with("the previous stop")
    workbench.press("F5")
    until(
        "the next batch",
        lambda: view.statistics().get("mean", "")[:5] == f"{fed[1].mean():.6}"[:5],
    )
    until("the difference", lambda: "now − before" in view.frame.locator(".readout").inner_text())
    pixels = view.pixels()
    assert {pixels[i][j] for i, j in np.argwhere(fed[0] == fed[1])} == {(247, 247, 247)}
    assert {pixels[i][j] for i, j in np.argwhere(fed[1] > fed[0])} - {(247, 247, 247)}
    red = [pixels[i][j] for i, j in np.argwhere(fed[1] - fed[0] >= 0.25)]
    assert all(r > b for r, _, b in red)
    assert workbench.notifications() == []


@pytest.mark.both_versions
def test_another_tensor_is_typed_compared_and_saved(workbench: Workbench, folder: Path) -> None:
    from tensor_view import TensorView, accept, answer

    fed = batches()
    stop_at(workbench, folder / SCRIPT, "layers.fc(x")
    view = TensorView.open_as_typed(workbench, "x[:8] * 2")
    until("the heat map", lambda: view.shape() == (8, 64))
    assert view.statistics()["max"] == "2"

    # Against its half, what is left is the half.
    view.compare_with("another tensor…")
    answer(workbench, "x[:8]")
    until("the difference", lambda: view.statistics().get("max") == "1")
    assert "difference float32[8, 64]" in view.frame.locator(".type").inner_text()

    # One of another shape is refused in a sentence, and the view goes on.
    view.compare_with("another tensor…")
    answer(workbench, "x")
    until(
        "the sentence",
        lambda: "only tensors of one shape" in view.frame.locator(".message").inner_text(),
    )
    view.compare_with("nothing")
    until("the tensor itself", lambda: view.statistics().get("max") == "2")
    assert view.frame.locator(".message").inner_text() == ""

    # NumPy reads what is saved.
    view.frame.get_by_role("button", name="Save as .npy").click()
    file = folder / "x_8_2.npy"
    accept(workbench, str(file))
    until("the file", file.exists)
    np.testing.assert_array_equal(np.load(file), fed[0][:8] * 2)


def test_nan_and_images(workbench: Workbench, folder: Path) -> None:
    """A script of its own: pictures in colour, one with a NaN."""
    from tensor_view import TensorView

    script = folder / "pictures.py"
    script.write_text(
        "import numpy as np\n"
        "import opstep\n"
        "from opstep import layers\n"
        "fed = np.zeros((2, 3, 8, 12), np.float32)\n"
        "fed[1, 0, :, :6] = 1\n"
        "fed[1, 1, :, 6:] = 0.5\n"
        "fed[0, 2, 3, 4] = np.nan\n"
        'main = opstep.Program("main")\n'
        'with opstep.program_guard(main, opstep.Program("startup")):\n'
        '    x = layers.data("pictures", shape=[2, 3, 8, 12])\n'
        "    y = layers.tanh(x)\n"
        'opstep.Executor().run(main, feed={"pictures": fed}, fetch_list=[y])\n'
    )
    stop_at(workbench, script, "layers.tanh(x)")
    workbench.expand_scope("Inputs")
    view = TensorView.open_from_variables(workbench, "(pictures)", "pictures")
    until("the heat map", lambda: view.shape() == (8, 12))

    # To the NaN, by its address.
    assert view.statistics()["NaN"].startswith("1 (")
    view.frame.get_by_role("button", name="first at [0, 2, 3, 4]").click()
    assert view.value(3, 4) == "nan"
    assert re.search(r"\bbad\b", view.cell(3, 4).get_attribute("class") or "")
    view.tab("Heat Map")
    colours = view.pixels()
    assert {DARKEST} == {colours[i][j] for i in range(8) for j in range(12) if (i, j) != (3, 4)}
    # A cross lies over the middle of the cell: look beside it.
    corner = view.canvas.evaluate(
        """canvas => {
            const size = canvas.width / 12;
            const [x, y] = [4 * size + size / 2, 3 * size + 1];
            return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3);
        }"""
    )
    assert tuple(corner) == NAN

    # The other picture, in red and green.
    view.tab("Image")
    view.frame.get_by_label("index in axis 0, as a number").fill("1")
    view.frame.get_by_label("index in axis 0, as a number").press("Enter")
    until("the picture", lambda: view.pixels()[0][0] == (255, 0, 0))
    assert {row[11] for row in view.pixels()} == {(0, 128, 0)}
