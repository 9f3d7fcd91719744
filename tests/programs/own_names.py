"""Functions that look at their own local names, and a name that nobody can type."""

import numpy as np

import opstep
from opstep import layers

globals()["\udc80"] = type("Odd", (), {})()


def made_by_exec() -> None:
    exec("y = 5")
    exe.run(main, feed=feed, fetch_list=[out])
    print(eval("y"))


def held() -> None:
    before = locals()
    exe.run(main, feed=feed, fetch_list=[out])
    print(sorted(before))


def usual() -> None:
    here = out
    exe.run(main, feed=feed, fetch_list=[here])


main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[2])
    out = x + x
feed = {"x": np.ones(2, np.float32)}
exe = opstep.Executor()
made_by_exec()
held()
usual()
