"""`info vars` in `opstep debug`, in a loop within a loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.patience import SECONDS

NESTED = """
import numpy as np
import opstep
from opstep import layers

main = opstep.Program("nest")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[3])
    total = layers.assign(x)
    i = layers.fill(shape=[], value=0, dtype="int64")
    outer = layers.less_than(i, 2)
    loop = layers.While(outer)
    with loop.block():
        j = layers.fill(shape=[], value=0, dtype="int64")
        inner = layers.less_than(j, 2)
        nested = layers.While(inner)
        with nested.block():
            layers.assign(total * 1.5, out=total)  # here
            layers.increment(j)
            layers.less_than(j, 2, out=inner)
        layers.increment(i)
        layers.less_than(i, 2, out=outer)
opstep.Executor().run(main, feed={"x": np.ones(3, np.float32)}, fetch_list=[total])
"""


def debug(tmp_path: Path, *commands: str) -> str:
    script = tmp_path / "nest.py"
    script.write_text(NESTED)
    line = next(n for n, text in enumerate(NESTED.splitlines(), 1) if text.endswith("# here"))
    options = [word for c in (f"tbreak {line}", "run", *commands) for word in ("-ex", c)]
    result = subprocess.run(
        [sys.executable, "-m", "opstep_server", "debug", "--batch", *options, str(script)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_variables_are_shown_block_by_block(tmp_path: Path):
    shown = debug(tmp_path, "info vars").partition("(opstep) info vars\n")[2].splitlines()
    titles = [line for line in shown if not line.startswith(" ")]
    assert len(titles) == 3
    assert titles[0] == "other variables of the block:"
    assert titles[1].startswith("other variables of the block around it, of #")
    assert titles[2] == "other variables of the outermost block:"
    names = [line.split()[0] for line in shown if line.startswith(" ")]
    assert len(names) == len(set(names))
    at = shown.index(titles[2])
    assert any(line.split()[:2] == ["x", "float32[3]"] for line in shown[at:])


def test_from_an_outer_frame_the_inner_blocks_are_not_shown(tmp_path: Path):
    shown = debug(tmp_path, "frame 3", "info vars").partition("(opstep) info vars\n")[2]
    titles = [line for line in shown.splitlines() if not line.startswith(" ")]
    assert titles == ["other variables of the block:"]


def test_what_print_finds_info_vars_finds(tmp_path: Path):
    shown = debug(tmp_path, "print x", "info vars x", "nexti", "print X", "info vars X")
    assert "  x  float32[3] [1, 1, 1]" in shown.splitlines()
    assert "  X  float32[3] [1, 1, 1]" in shown.splitlines()
