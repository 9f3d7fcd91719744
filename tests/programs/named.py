"""Variables that Python code has its own names for: of a module, of a function, of an object."""

import numpy as np

import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 3])
    hidden = layers.fc(x, size=2, act="tanh")  # @hidden
exe = opstep.Executor()


class Trainer:
    def __init__(self) -> None:
        with opstep.program_guard(main, startup):
            self.loss = layers.mean(layers.square(hidden))  # @loss
            opstep.optimizer.SGD(learning_rate=0.5).minimize(self.loss)  # @minimize

    def train(self, steps: int) -> None:
        goal = self.loss
        for _ in range(steps):
            feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
            exe.run(main, feed=feed, fetch_list=[goal])  # @run


trainer = Trainer()
exe.run(startup)
trainer.train(3)
