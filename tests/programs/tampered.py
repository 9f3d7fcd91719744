"""Counts a variable up, and before the fourth run writes a NaN into it past all ops."""

import numpy as np

import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    total = main.global_block().create_var(
        name="total", shape=[4], dtype="float32", persistable=True
    )
    layers.increment(total)

scope = opstep.global_scope()
scope.set("total", np.zeros(4, np.float32))
exe = opstep.Executor()
for run in range(1, 6):
    if run == 4:
        scope.view("total")[2] = np.nan
    exe.run(main)
