"""A generative adversarial network, line by line (--imperative) or compiled.

The generator turns noise into points; the judge tells them from points of a ring around (0, 0). One
step trains both, the judge first.
"""

import sys

import numpy as np
from switch import both_modes

import opstep
from opstep import imperative, layers, pictures, readers

STEPS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 600)
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


# %% The two networks: functions of opstep.layers keep their parameters in a layer, too.
class Generator(imperative.Layer):
    def forward(self, noise):
        hidden = layers.fc(layers.fc(noise, size=32, act="relu"), size=32, act="relu")
        return layers.fc(hidden, size=2)


class Judge(imperative.Layer):
    def forward(self, points):
        hidden = layers.fc(points, size=64, act="leaky_relu")
        hidden = layers.fc(hidden, size=64, act="leaky_relu")
        return layers.fc(hidden, size=1)


generator, judge = Generator(), Judge()
judge_adam = opstep.optimizer.Adam(0.002, beta1=0.5)
generator_adam = opstep.optimizer.Adam(0.001, beta1=0.5)


# %% One step of each, and the function that draws.
def cost(points, real):
    """The distance of the judge's opinion of the points from `real`."""
    logits = judge(points)
    wanted = layers.fill_like(logits, real)
    return layers.mean(layers.sigmoid_cross_entropy_with_logits(logits, wanted))


@both_modes
def train(points, noise):
    judge_loss = cost(points, 1.0) + cost(generator(noise).detach(), 0.0)
    judge_adam.minimize(judge_loss, parameters=judge.parameters())
    generator_loss = cost(generator(noise), 1.0)  # the answer that the generator wants
    generator_adam.minimize(generator_loss, parameters=generator.parameters())
    return judge_loss, generator_loss


@both_modes
def draw(noise):
    with imperative.no_grad():
        return generator(noise)


# %% The training.
reader, losses = readers.from_steps(ring), {"judge": [], "generator": []}
for step in range(1, STEPS + 1):
    batch, _ = reader()
    judge_loss, generator_loss = train(**batch)
    losses["judge"].append(judge_loss)
    losses["generator"].append(generator_loss)
    if step % 200 == 0:
        print(f"step {step:4}: judge's loss {judge_loss:.3f}, generator's {generator_loss:.3f}")
pictures.curve(losses, title="losses")

# %% Points that the generator draws now.
drawn = draw(noise=np.random.default_rng(1).normal(size=(2000, 4)).astype(np.float32))
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
