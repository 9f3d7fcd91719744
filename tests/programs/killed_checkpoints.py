"""Children that write checkpoints until they are killed, each going on where the one before was.

Goes on until 20 kills came in the middle of writing one. Prints how often a checkpoint was looked
at, how many such kills there were, and the last step. Exits with 1 when the values of a checkpoint
do not belong together.
"""

import glob
import os
import random
import signal
import sys
import time

import numpy as np
from safetensors.numpy import load_file

import opstep
from opstep import layers, ops

FILE, TIMES = sys.argv[1], int(sys.argv[2])
HALVES = os.path.join(os.path.dirname(FILE), ".opstep-*.tmp")
TENSORS, ELEMENTS = 8, 100_000


def count_for_ever(ready: int) -> None:
    main, startup = opstep.Program("main"), opstep.Program("startup")
    with opstep.program_guard(main, startup):
        for i in range(TENSORS):
            value = main.global_block().create_var(f"v{i}", [ELEMENTS], persistable=True)
            with opstep.program_guard(startup):
                first = startup.global_block().create_var(f"v{i}", [ELEMENTS], persistable=True)
                layers.fill([ELEMENTS], 0.0, out=first)
            ops.increment(value, out=value)
        opstep.checkpoint(FILE)
    if not opstep.resume(FILE, main):
        startup.run()
    main.run()
    os.write(ready, b"!")
    while True:
        main.run()


def step_of_checkpoint() -> float:
    values = load_file(FILE)
    steps = {float(step) for value in values.values() for step in np.unique(value)}
    if len(values) != TENSORS or len(steps) != 1:
        sys.exit(f"the checkpoint has {len(values)} tensors, of the steps {sorted(steps)}")
    return steps.pop()


rng = random.Random(4)
last, halves, rounds = 0.0, 0, 0
while rounds < TIMES or halves < 20:
    rounds += 1
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            count_for_ever(writer)
        finally:
            os._exit(1)
    os.close(writer)
    if os.read(reader, 1) != b"!":
        sys.exit("a child ended by itself")
    time.sleep(rng.uniform(0, 0.03))
    while rounds % 2 and not glob.glob(HALVES):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    step = step_of_checkpoint()
    if step <= last:
        sys.exit(f"step {step:g} came after step {last:g}")
    last = step
    for half in glob.glob(HALVES):
        os.unlink(half)
        halves += 1
print(rounds, halves, int(last))
