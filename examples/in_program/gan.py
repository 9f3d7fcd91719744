"""The generative adversarial network of ../gan.py as one program.

Models, machines and updaters are the same. Fed with the variables of a loop instead of values, they
add their ops to its block.
"""

import sys

import numpy as np

import opstep
from opstep import layers, pictures, readers

STEPS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 1500)
BAR = 0.1  # how far the points' distance from the middle may be off, in mean and in spread
ROWS, RADIUS, WIDTH = 128, 2.0, 0.1


def ring(step):
    """A minibatch of real points, and noise for the same number of false ones."""
    rng = np.random.default_rng([0, step])
    angle, radius = rng.uniform(0, 2 * np.pi, ROWS), rng.normal(RADIUS, WIDTH, ROWS)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return {
        "points": points.astype(np.float32),
        "noise": rng.normal(size=(ROWS, 4)).astype(np.float32),
    }


# %% The two models.
models, startup = opstep.Program("models"), opstep.Program("startup")
with opstep.program_guard(models, startup):
    noise = layers.data("noise", shape=[None, 4])
    with opstep.name_scope("generator"):
        hidden = layers.fc(layers.fc(noise, size=32, act="relu"), size=32, act="relu")
        fake = layers.fc(hidden, size=2)

    points = layers.data("points", shape=[None, 2])
    real = layers.data("real", shape=[None, 1])  # 1 for points of the ring, 0 for drawn ones
    with opstep.name_scope("judge"):
        hidden = layers.fc(points, size=64, act="leaky_relu")
        hidden = layers.fc(hidden, size=64, act="leaky_relu")
        logits = layers.fc(hidden, size=1)
        loss = layers.mean(layers.sigmoid_cross_entropy_with_logits(logits, real))

    generator, judge = opstep.model_of(fake), opstep.model_of(loss)

# %% The machines that compute them, and their updaters.
drawing, judging = opstep.gradient_machine(generator), opstep.gradient_machine(judge)
both = opstep.compose(generator, judge, connect={points: fake})
judge_updater = opstep.updater(opstep.optimizer.Adam(0.002, beta1=0.5))
generator_updater = opstep.updater(opstep.optimizer.Adam(0.001, beta1=0.5))


def step(seen, noise_now):
    """One step of each: the judge learns from real and drawn points, then the generator."""
    ones = layers.ones_like(seen[:, :1])
    drawn = drawing.feed({"noise": noise_now}).forward()
    mixed = layers.concat([seen, drawn])
    judging.feed({"points": mixed, "real": layers.concat([ones, layers.zeros_like(ones)])})
    judge_loss = judging.backward()
    judge_updater.update(judging)

    both.feed({"noise": noise_now, "real": ones})  # the answer that the generator wants
    generator_loss = both.backward()
    generator_updater.update(both, only=generator)
    return judge_loss, generator_loss


# %% The program: a loop whose block has one step of each.
main = opstep.Program("gan")
with opstep.program_guard(main, startup):
    with (loop := readers.from_steps(ring).iterate(steps=STEPS)) as (seen, noise_now):
        judge_loss, generator_loss = step(seen, noise_now)
        judge_losses = loop.fetch(judge_loss, every=500, name="judge_loss")
        generator_losses = loop.fetch(generator_loss, every=500, name="generator_loss")
main

# %% The training: one run.
exe = opstep.Executor()
exe.run(startup)
pair = exe.run(main, fetch_list=[judge_losses, generator_losses])
for number, (a, b) in enumerate(zip(*pair, strict=True), 1):
    print(f"step {number * 500:4}: judge's loss {a:.3f}, generator's {b:.3f}")

# %% Points that the generator draws now.
sample = np.random.default_rng(1).normal(size=(2000, 4)).astype(np.float32)
drawn = drawing.feed({"noise": sample}).forward()
radius = np.hypot(drawn[:, 0], drawn[:, 1])
# Points must be all around: no eighth of the ring may be left out.
angle = np.arctan2(drawn[:, 1], drawn[:, 0])
eighths = np.bincount((angle / np.pi * 4 + 4).astype(int) % 8, minlength=8)
mean_off, spread_off = abs(radius.mean() - RADIUS), abs(radius.std() - WIDTH)
emptiest = eighths.min() / len(drawn)
print(f"radius {radius.mean():.3f} ± {radius.std():.3f}, of the ring {RADIUS} ± {WIDTH}")
print(f"emptiest eighth {emptiest:.1%}, of the ring 12.5%")
if max(mean_off, spread_off) > BAR or emptiest < 0.05:
    sys.exit("that is not the ring yet")
pictures.points({"drawn": drawn, "real": ring(0)["points"]})
