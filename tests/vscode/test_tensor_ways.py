"""Other ways to a tensor, and out of the view: the editor's menu, a hover, the clipboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from test_tensor_view import SCRIPT, batches, stop_at

from harness.patience import until

if TYPE_CHECKING:
    from workbench import Editor, Workbench


def put_cursor_on(editor: Editor, line: str) -> None:
    """On the first word of the line with that text."""
    editor.root.locator(".view-line").filter(has_text=line).first.click()
    editor.root.page.keyboard.press("Home")


def test_from_the_menu_of_the_editor(workbench: Workbench, folder: Path) -> None:
    from tensor_view import TensorView

    editor, _ = stop_at(workbench, folder / SCRIPT, "logits = layers.fc(hidden")
    put_cursor_on(editor, "hidden = layers.fc(")
    workbench.press("Shift+F10")
    # By keys: a menu that has just been opened ignores clicks for a while.
    entries = workbench.page.locator(".monaco-menu .action-item")
    entries.filter(has_text="Show in Tensor View").hover()
    focused = entries.and_(workbench.page.locator(".focused"))
    focused.filter(has_text="Show in Tensor View").wait_for()
    workbench.press("Enter")
    view = TensorView(workbench, "hidden")
    until("the heat map", lambda: view.shape() == (32, 32))
    assert workbench.notifications() == []


@pytest.mark.both_versions
def test_from_the_hover(workbench: Workbench, folder: Path) -> None:
    """The debugger's own hover covers it for the mouse, unless Alt is held; not for the command."""
    from tensor_view import TensorView

    editor, _ = stop_at(workbench, folder / SCRIPT, "logits = layers.fc(hidden")
    put_cursor_on(editor, "hidden = layers.fc(")
    workbench.run_command("Show or Focus Hover")
    workbench.page.locator(".monaco-hover a", has_text="in the tensor view").first.click()
    view = TensorView(workbench, "hidden")
    until("the heat map", lambda: view.shape() == (32, 32))
    assert workbench.notifications() == []


@pytest.mark.both_versions
def test_copied_as_numpy(workbench: Workbench, folder: Path) -> None:
    from tensor_view import TensorView

    page = workbench.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText('')")  # All pages of a browser share it.
    stop_at(workbench, folder / SCRIPT, "layers.fc(x")
    view = TensorView.open_as_typed(workbench, "x[:3, 20:24]")
    until("the heat map", lambda: view.shape() == (3, 4))
    view.frame.get_by_role("button", name="Copy as NumPy").click()
    copied = until("the text", lambda: page.evaluate("navigator.clipboard.readText()"))
    names = {"np": np, "array": np.array, "float32": np.float32}
    np.testing.assert_array_equal(eval(copied, names), batches()[0][:3, 20:24])
    status = page.locator(".statusbar-item", has_text="copied x[:3, 20:24] as NumPy")
    status.wait_for()
