"""A residual network reads handwritten digits, line by line (--imperative) or compiled.

Each block adds the result of two convolutions to its input, so gradients have a short way back.
Batch normalization learns in training from each batch, and is tested with its running means.
"""

import sys

from switch import both_modes

import opstep
from opstep import datasets, imperative, layers, pictures

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 3)
BAR = 0.97


# %% The network: blocks with shortcuts.
class Block(imperative.Layer):
    """Two convolutions, and a shortcut around them; the second block halves height and width."""

    def __init__(self, filters, stride) -> None:
        super().__init__()
        self.first = imperative.Conv2D(filters, 3, stride=stride, padding=1, bias=False)
        self.first_norm = imperative.BatchNorm(act="relu")
        self.second = imperative.Conv2D(filters, 3, padding=1, bias=False)
        self.second_norm = imperative.BatchNorm()
        self.shortcut = imperative.Conv2D(filters, 1, stride=stride) if stride > 1 else None

    def forward(self, x):
        made = self.second_norm(self.second(self.first_norm(self.first(x))))
        kept = x if self.shortcut is None else self.shortcut(x)
        return layers.relu(made + kept)


class ResidualNet(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.stem = imperative.Conv2D(8, 3, padding=1, act="relu")
        self.blocks = imperative.LayerList([Block(8, 1), Block(16, 2)])
        self.logits = imperative.FC(10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.logits(layers.global_average_pool(x))


net = ResidualNet()
adam = opstep.optimizer.Adam(opstep.lr.CosineDecay(0.02, steps=EPOCHS * 45))


# %% One step of training, and the scores for testing.
@both_modes
def train(x, label):
    loss = layers.mean(layers.softmax_with_cross_entropy(net(x), label))
    adam.minimize(loss, parameters=net.parameters())
    return loss


@both_modes
def scores(x):
    net.eval()
    with imperative.no_grad():
        result = net(x)
    net.train()
    return result


# %% The training.
digits, losses = datasets.digits("train", batch=32, shuffle=0), []
for epoch in range(1, EPOCHS + 1):
    losses += [train(**batch) for batch in digits]
    print(f"epoch {epoch:2}: loss {losses[-1]:.4f}")
pictures.curve(losses, title="loss")

# %% Predictions for test images.
held_out, _ = datasets.digits("test", batch=360)()
guesses = scores(x=held_out["x"]).argmax(axis=1)
right = (guesses == held_out["label"][:, 0]).mean()
print(f"test accuracy {right:.1%}")
if right < BAR:
    sys.exit(f"that is less than {BAR:.0%}")
pictures.images(held_out["x"], guesses, truth=held_out["label"])
