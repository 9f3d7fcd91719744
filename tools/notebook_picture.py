"""Makes the README's picture of a notebook, docs/notebook.png, from a real run in a real browser:
`make pictures-notebook`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 940, 1290
CELLS = [
    """\
import opstep
from opstep import datasets, layers, pictures

x = layers.data("x", shape=[None, 1, 8, 8])
label = layers.data("label", shape=[None, 1], dtype="int64")
scores = layers.fc(layers.fc(x, size=32, act="relu"), size=10)
digits = opstep.model_of(scores)
digits""",
    """\
loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
machine = opstep.compose(digits, opstep.model_of(loss))
updater = opstep.updater(opstep.optimizer.Adam(0.01))
losses = []
for batch in datasets.digits("train", batch=32, shuffle=0).repeat().take(400):
    losses.append(machine.feed(batch).backward())
    updater.update(machine)
pictures.curve(losses, title="loss")""",
    """\
batch, _ = datasets.digits("test", batch=24)()
guesses = machine.feed(batch).forward(digits).argmax(axis=1)
pictures.images(batch["x"], guesses, truth=batch["label"])""",
]


def main() -> None:
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=100).execute()
    page, _ = HTMLExporter().from_notebook_node(notebook)
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("chromium is missing: write 'tools/setup_system.sh browser'")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page)
        # The sandbox does not work for root; the page is our own.
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={folder}"]
        picture = [f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={ROOT / 'docs/notebook.png'}"]
        subprocess.run(
            [browser, *options, *picture, path.as_uri()], check=True, capture_output=True
        )


if __name__ == "__main__":
    main()
