"""The examples as notebooks, in a real kernel, and a debugger attached to one."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client import KernelManager
from jupyter_client.blocking import BlockingKernelClient
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from harness.dap_client import Session
from harness.processes import OPSTEP, SECONDS, attach, wait_until

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tools"))

from notebook import notebook  # noqa: E402

EXAMPLES = sorted(
    path for folder in ("examples", "examples/in_program") for path in (ROOT / folder).glob("*.py")
)
# What each says at its end.
QUALITY = {
    "digits_conv": r"test accuracy 9[89]\.\d%",
    "digits_mlp": r"epoch 30: .* test accuracy 9[5-9]\.\d%",
    "digits_rnn": r"test accuracy 9[5-9]\.\d%",
    "find_the_nan": r"The loss is NaN",
    "gan": r"radius (2\.0|1\.9)\d+ ± 0\.[01]\d+",
    "kepler": r"the same bits: True",
    "line_by_line": r"the same bits: True",
    "linear_regression": r"explained variance 3[3-9]\.\d%",
    "loop": r"after 11 turns",
    "sequences": r"test accuracy 9[5-9]\.\d%",
    "softmax_regression": r"test accuracy 9[5-9]\.\d%",
}


@pytest.fixture(autouse=True)
def nobodys_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither read what a user has set for notebooks nor write to a history."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


def run(made: nbformat.NotebookNode, folder: Path, **options: bool) -> list[nbformat.NotebookNode]:
    """The outputs of all cells, after each was run in a kernel of this environment."""
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(made, timeout=SECONDS, resources=resources, **options).execute()
    return [output for cell in made.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_shows_tables_and_pictures(script: Path, tmp_path: Path) -> None:
    made = nbformat.from_dict(notebook(script.read_text()))
    nbformat.validate(made)
    outputs = run(made, tmp_path)
    shown = [output.data for output in outputs if "data" in output]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert len(pages) == len(shown), [data["text/plain"] for data in shown]
    assert any("<table" in page for page in pages)
    assert any("<svg" in page for page in pages)
    assert max(map(len, pages)) < 150_000
    printed = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
    assert re.search(QUALITY[script.stem], printed), printed


def test_cells_are_made_of_marks() -> None:
    made = notebook('"""Doc."""\nimport os\n\n# %% Title.\nx = 1\nx\n# %% [markdown]\n# *Text*\n')
    cells = [(cell["cell_type"], cell["source"]) for cell in made["cells"]]
    assert cells == [
        ("markdown", "Doc."),
        ("code", "import os"),
        ("markdown", "Title."),
        ("code", "x = 1\nx"),
        ("markdown", "*Text*"),
    ]


def test_errors_and_listings_name_the_cell(tmp_path: Path) -> None:
    cells = [
        "import opstep\nfrom opstep import layers",
        'x = layers.data("x", [None, 3])\n\ndef wider(y):\n    return layers.fc(y, 4)',
        "y = wider(x)\nprint(opstep.default_main_program())\nprint(y.writer.stack)",
        "wide = layers.fc(x, 5)\nwide + y",
    ]
    made = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    outputs = run(made, tmp_path, allow_errors=True)
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "# fc_0.matmul, In[2]:4" in printed
    # Nothing of what runs the cells is among the user's lines.
    stack = re.findall(r"Frame\(file='(.*?)', line=(\d+)", printed)
    assert stack == [("In[2]", "4"), ("In[3]", "1")]
    errors = [output for output in outputs if output.output_type == "error"]
    assert [error.ename for error in errors] == ["Error"]
    assert errors[0].evalue.endswith("(In[4]:2)"), errors[0].evalue


TRAINING = [
    "import os, time\nimport numpy as np\nimport opstep\nfrom opstep import layers",
    'x = layers.data("x", [None, 3])\ny = layers.tanh(layers.fc(x, 4))',
    "exe = opstep.Executor()\n"
    "exe.run(opstep.default_startup_program())\n"
    "while not os.path.exists('stop'):\n"
    "    exe.run(feed={'x': np.ones((2, 3), np.float32)}, fetch_list=[y])\n"
    "    open('pid', 'w').write(str(os.getpid()))\n"
    "    time.sleep(0.01)",
]


class Kernel:
    """A kernel whose last cell runs until it is told to stop."""

    def __init__(self, folder: Path, client: BlockingKernelClient) -> None:
        self._folder, self._client = folder, client
        self._cells = [client.execute(cell) for cell in TRAINING]
        assert wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text() != "")
        self.pid = int((folder / "pid").read_text())

    def finish(self) -> None:
        """The cells end well."""
        (self._folder / "stop").touch()
        while self._cells:
            reply = self._client.get_shell_msg(timeout=SECONDS)
            assert reply["content"]["status"] == "ok", reply["content"]
            if reply["parent_header"]["msg_id"] == self._cells[0]:
                del self._cells[0]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    manager = KernelManager()
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.blocking_client()
    with contextlib.ExitStack() as at_end:
        at_end.callback(manager.shutdown_kernel, now=True)
        client.start_channels()
        at_end.callback(client.stop_channels)
        client.wait_for_ready(timeout=SECONDS)
        yield Kernel(tmp_path, client)


def test_a_terminal_stops_a_notebook_at_a_cells_line(kernel: Kernel) -> None:
    commands = ["break In[2]:2", "break In[7]:1", "continue", "where", "list", "list source"]
    options = [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(
        [*OPSTEP, "attach", "--batch", *options, str(kernel.pid)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    said = done.stdout
    assert "breakpoint 1 at In[2]:2: 3 ops, first #2 fc_0.matmul" in said, said + done.stderr
    assert "breakpoint 2 at In[7]:1: pending" in said
    where = re.search(r"\* 0  op #2 .*, In\[2\]:2\n  1  run \d+ of main, In\[3\]:4\n.*\n", said)
    assert where and where[0].endswith("  2  python <module>, In[3]:4\n"), said
    assert re.search(r"=>● 3 .*# fc_0.matmul, In\[2\]:2", said), said
    assert "In[2] is a notebook's cell: 'list listing' shows the ops" in said + done.stderr
    kernel.finish()


def test_an_editor_shows_the_listing_of_a_notebook(kernel: Kernel) -> None:
    with Session() as session:
        attach(session, {"pid": kernel.pid}, functions=[{"name": "tanh"}])
        body = session.stopped("function breakpoint")
        top, *others = session.stack(body["threadId"])
        source = session.request("source", {"sourceReference": top["source"]["sourceReference"]})
        assert "tanh(X=" in source["content"].splitlines()[top["line"] - 1]
        last = others[-1]
        assert (last["source"], last["line"]) == ({"name": "In[3]"}, 4)
        session.request("disconnect")
        session.event("terminated")
    kernel.finish()
