"""Learn the noise of a sensor. After some steps the loss becomes NaN: which op makes it?

    opstep debug --batch -ex "catch nan" -ex run -ex where -ex inputs examples/find_the_nan.py

The model predicts a mean and a variance for each reading and is trained with the likelihood of
the normal distribution. It works at first, and the loss falls nicely ...
"""

import numpy as np

import opstep
from opstep import layers, pictures

rng = np.random.default_rng(1)
temperature = rng.uniform(-1, 1, (512, 1)).astype(np.float32)
reading = 3 * temperature + 1 + 0.05 * rng.standard_normal((512, 1)).astype(np.float32)

# %% The model.
main, startup = opstep.Program("sensor"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("temperature", shape=[None, 1])
    y = layers.data("reading", shape=[None, 1])
    hidden = layers.fc(x, size=16, act="tanh", name="body")
    mean = layers.fc(hidden, size=1, name="mean")
    # Starts at 1 and shrinks as the fit gets better. Nothing keeps it above zero.
    variance = layers.fc(
        hidden, size=1, name="variance", bias_init=opstep.initializer.Constant(1.0)
    )
    error = layers.square_error_cost(mean, y)
    surprise = layers.log(variance) + error / variance
    loss = layers.mean(surprise, name="loss")
    opstep.optimizer.SGD(learning_rate=0.02).minimize(loss)
pictures.graph(main.clone(for_test=True))

# %% The training.
exe = opstep.Executor()
exe.run(startup)
losses = []
for step in range(1, 201):
    rows = rng.integers(0, 512, 64)
    batch = {"temperature": temperature[rows], "reading": reading[rows]}
    (value,) = exe.run(main, feed=batch, fetch_list=[loss])
    losses.append(value)
    if step % 10 == 0 or np.isnan(value):
        print(f"step {step:3}: loss {value:.4f}")
    if np.isnan(value):
        print(
            "The loss is NaN and will stay so. Run me in the debugger to see where it comes from."
        )
        break
pictures.curve(losses, title="loss")

# %% The ops, and the lines that made them.
main
