"""A recurrent sum, rows split by their sign, and a branch; with gradients."""

import numpy as np

import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, None, 2])
    x.stop_gradient = False
    rnn = layers.Recurrent()
    with rnn.step():
        now = rnn.step_input(x)
        before = rnn.memory(shape=[2])
        total = layers.add(before, layers.mul(now, now))  # @step
        rnn.update(before, total)
        rnn.output(total)
    sums = rnn()
    last = rnn.final[0]
    first = layers.reduce_sum(last, axes=[1], keepdims=True)
    branch = layers.IfElse(layers.less_than(first, 100.0))
    with branch.true_block():
        small = layers.sqrt(branch.input(last))  # @small
        branch.output(small)
    with branch.false_block():
        large = layers.neg(branch.input(last))  # @large
        branch.output(large)
    merged = branch()
    loss = layers.mean(merged)  # @loss
    ((_, gradient),) = opstep.append_backward(loss, [x])

exe = opstep.Executor()
feed = {"x": np.arange(12, dtype=np.float32).reshape(2, 3, 2)}
value, slope = exe.run(main, feed=feed, fetch_list=[loss, gradient])
print(f"loss {value.item():g}, gradient {slope.sum():g}")
