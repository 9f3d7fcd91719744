"""Runs a program, ends in the way that its argument names, or runs it once more."""

import os
import signal
import subprocess
import sys

import numpy as np

import opstep
from opstep import layers

x = layers.data("x", shape=[2])
y = layers.relu(x)  # @relu
exe = opstep.Executor()


def run() -> None:
    exe.run(feed={"x": np.ones(2, np.float32)}, fetch_list=[y])  # @run


run()
way = sys.argv[1]
if way == "exit":
    sys.exit(5)
elif way == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif way == "forked":
    child = os.fork()
    run()
    if child == 0:
        os._exit(0)
    print("the child ended with", os.waitpid(child, 0)[1], flush=True)
elif way == "with a child":
    child_code = subprocess.run([sys.executable, sys.argv[0], "plainly"]).returncode
    print("the child ended with", child_code, flush=True)
run()
