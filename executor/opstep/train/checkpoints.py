"""Checkpoints that a program writes by itself while it runs, and resuming from them."""

from __future__ import annotations

import os

from opstep import context, ops, owners
from opstep._core import Error
from opstep.executor import Scope, _default
from opstep.initializer import Constant, add_startup_value
from opstep.layers import control_flow
from opstep.model import Path, _persistables, load_checkpoint
from opstep.program import Program, file_path


def checkpoint(path: Path, every: int | None = None, program: Program | None = None) -> None:
    """Let the program write everything that training needs to resume to a safetensors file:
    parameters, the optimizer's state, counters and all other variables that are persistable now.
    So call it after `minimize`, and before `merge`.

    The ops go to the current block, in a loop to its body. With `every`, only each `every`th run of
    the block writes; the count is a part of the checkpoint.

    The file is replaced whole: a process that is killed at any moment leaves the checkpoint before
    or the new one. The bytes are synced before they take the file's name, so that a power cut is
    survived as well as the file system allows. A killed write may leave a `.opstep-*.tmp` beside
    it, which can be deleted.
    """
    program = _default() if program is None else program
    if every is not None and (not isinstance(every, int) or every < 1):
        raise Error(f"a checkpoint every {every} runs is not possible: every is 1 or more")
    # The program may run in another directory than the one it was built in.
    file = os.path.abspath(file_path(path))
    name = program.unique_name("checkpoint")
    with context.program_guard(program):
        if every is None or every == 1:
            ops.save_combined(_persistables(program), path=file, name=f"{name}.save")
            return
        count = program.global_block()._create_var(
            f"{name}.count", [], "int64", persistable=True, stop_gradient=True
        )
        owners.keep_apart(program, count.name)
        add_startup_value(count, Constant(0))
        ops.increment(count, out=count, name=f"{name}.increment")
        with context.names_below(name):
            due = ops.equal(count % every, 0)
        with control_flow.Switch(name=f"{name}.switch") as switch, switch.case(due):
            ops.save_combined(_persistables(program), path=file, name=f"{name}.save")


def resume(path: Path, program: Program | None = None, scope: Scope | None = None) -> bool:
    """Resume from a checkpoint if there is one: `if not opstep.resume(path, main): run(startup)`.

    All persistable variables of the program get their values, or none does and the error says why.
    """
    if not os.path.lexists(file_path(path)):
        return False
    load_checkpoint(path, program, scope)
    return True
