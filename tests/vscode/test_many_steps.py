"""Stepping for a long time by key: each press is one op, and nothing piles up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.markers import line_with
from harness.patience import until

if TYPE_CHECKING:
    from code_server import CodeServer
    from workbench import Workbench

STEPS = 200
MEGABYTE = 1 << 20


def ops_of(script: Path) -> list[str]:
    """The names of the ops of a script's program, in the order in which they run."""
    definition = script.read_text().split("exe = ")[0]
    code = definition + "\nprint(*(op.name for op in main.blocks[0].ops), sep='\\n')\n"
    printer = script.with_name("print_ops.py")
    printer.write_text(code)
    done = subprocess.run([sys.executable, printer], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_each_press_is_one_op(server: CodeServer, workbench: Workbench, folder: Path) -> None:
    script = folder / "digits_mlp.py"
    line = line_with(script, "layers.fc(x")
    editor = workbench.open(script.name)
    editor.click_gutter(line)
    workbench.press("F5")
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
    editor.clear_gutter(line)

    def op() -> str:
        """The op on top of the stack; empty while it is not known."""
        stack = workbench.call_stack()
        return stack[0].split()[0] if len(stack) > 1 else ""

    seen = [until("the stack", op)]
    memory = 0
    for step in range(STEPS):
        workbench.press("Control+F10")
        seen.append(until("the next op", lambda: op() not in ("", seen[-1]) and op()))
        if step == STEPS // 4:  # By then everything is loaded that stepping needs.
            memory = server.extension_host_memory()
    grown = server.extension_host_memory() - memory

    # All ops, one after the other, run after run.
    ops = ops_of(script)
    at = ops.index(seen[0])
    assert seen == [ops[(at + step) % len(ops)] for step in range(STEPS + 1)]
    assert grown < 64 * MEGABYTE, f"the extension host grew by {grown / MEGABYTE:.0f} MB"
