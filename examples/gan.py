"""A generative adversarial network: two models play against each other, and one learns to draw.

The generator turns noise into points; the judge tells them from points of a ring around (0, 0).
Each is a separate model. To train the judge, it is used alone; to train the generator, both are
composed, and the update changes the generator only.
"""

import sys

import numpy as np

import opstep
from opstep import layers, pictures, readers

STEPS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 1500)
BAR = 0.1  # how far the points' distance from the middle may be off, in mean and in spread
ROWS, RADIUS, WIDTH = 128, 2.0, 0.1


def ring(step: int) -> dict[str, np.ndarray]:
    """A minibatch of real points, and noise for the same number of false ones."""
    rng = np.random.default_rng([0, step])
    angle, radius = rng.uniform(0, 2 * np.pi, ROWS), rng.normal(RADIUS, WIDTH, ROWS)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return {
        "points": points.astype(np.float32),
        "noise": rng.normal(size=(ROWS, 4)).astype(np.float32),
    }


# %% The two models.
main, startup = opstep.Program("gan"), opstep.Program("startup")
with opstep.program_guard(main, startup):
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
generator

# %% The machines and updaters that train them.
drawing, judging = opstep.gradient_machine(generator), opstep.gradient_machine(judge)
both = opstep.compose(generator, judge, connect={points: fake})
judge_updater = opstep.updater(opstep.optimizer.Adam(0.002, beta1=0.5))
generator_updater = opstep.updater(opstep.optimizer.Adam(0.001, beta1=0.5))
both

# %% The training.
ones, zeros = np.ones((ROWS, 1), np.float32), np.zeros((ROWS, 1), np.float32)
reader = readers.from_steps(ring)
losses = {"judge": [], "generator": []}
for step in range(1, STEPS + 1):
    batch, _ = reader()
    drawn = drawing.feed({"noise": batch["noise"]}).forward()
    mixed = np.concatenate([batch["points"], drawn])
    judging.feed({"points": mixed, "real": np.concatenate([ones, zeros])})
    judge_loss = judging.backward()
    judge_updater.update(judging)

    before = judge.values
    both.feed({"noise": batch["noise"], "real": ones})  # the answer that the generator wants
    generator_loss = both.backward()
    generator_updater.update(both, only=generator)
    for name, value in judge.values.items():
        assert value.tobytes() == before[name].tobytes(), name
    losses["judge"].append(judge_loss)
    losses["generator"].append(generator_loss)
    if step % 500 == 0:
        print(f"step {step:4}: judge's loss {judge_loss:.3f}, generator's {generator_loss:.3f}")
pictures.curve(losses, title="losses")

# %% Points that the generator draws now.
noise_now = np.random.default_rng(1).normal(size=(2000, 4)).astype(np.float32)
drawn = drawing.feed({"noise": noise_now}).forward()
radius = np.hypot(drawn[:, 0], drawn[:, 1])
# Points must be all around: no eighth of the ring may be left out.
angle = np.arctan2(drawn[:, 1], drawn[:, 0])
eighths = np.bincount((angle / np.pi * 4 + 4).astype(int) % 8, minlength=8)
mean_off, spread_off = abs(radius.mean() - RADIUS), abs(radius.std() - WIDTH)
emptiest = eighths.min() / len(drawn)
print(f"radius {radius.mean():.3f} ± {radius.std():.3f}, of the ring {RADIUS} ± {WIDTH}")
print(f"emptiest eighth {emptiest:.1%}, of the ring 12.5%")
if not (max(mean_off, spread_off) <= BAR and emptiest >= 0.05):
    sys.exit("that is not the ring yet")
pictures.points({"ring": batch["points"], "drawn": drawn[:500]})
