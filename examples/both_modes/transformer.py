"""A small Transformer, line by line (--imperative) or compiled: does the first symbol come again?

Each place of a sequence looks at all others; one has to find a symbol that is equal to the first.
"""

import sys

from switch import both_modes

import opstep
from opstep import datasets, imperative, layers, pictures
from opstep.initializer import Normal

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 6)
BAR = 0.95
STEPS, SYMBOLS, WIDTH = 8, 6, 24


# %% The network.
class Block(imperative.Layer):
    """Attention, then two layers for each place by itself; a shortcut around both."""

    def __init__(self) -> None:
        super().__init__()
        self.look_norm, self.think_norm = (imperative.LayerNorm(axis=-1) for _ in range(2))
        self.look = imperative.MultiHeadAttention(WIDTH, heads=4, dropout=0.05)
        self.think = imperative.Sequential(
            imperative.FC(2 * WIDTH, act="gelu", axis=-1), imperative.FC(WIDTH, axis=-1)
        )

    def forward(self, x):
        x = x + self.look(self.look_norm(x))
        return x + self.think(self.think_norm(x))


class Transformer(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.symbols = imperative.Embedding([SYMBOLS, WIDTH])
        self.places = layers.create_parameter([STEPS, WIDTH], initializer=Normal())
        self.blocks = imperative.LayerList(Block() for _ in range(2))
        self.norm = imperative.LayerNorm(axis=-1)
        self.logits = imperative.FC(2)

    def forward(self, x):
        x = self.symbols(x) + self.places
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x)[:, 0])


net, adam = Transformer(), opstep.optimizer.AdamW(0.01)


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


# %% The training: 2,048 sequences.
data = {"steps": STEPS, "symbols": SYMBOLS}
sequences, losses = datasets.sequences(2048, **data, seed=1, batch=64, shuffle=0), []
for epoch in range(1, EPOCHS + 1):
    losses += [train(**batch) for batch in sequences]
    if epoch % 2 == 0:
        print(f"epoch {epoch:2}: loss {losses[-1]:.4f}")
pictures.curve(losses, title="loss")

# %% The accuracy on test sequences.
held_out, _ = datasets.sequences(500, **data, seed=2, batch=500)()
right = (scores(x=held_out["x"]).argmax(axis=1) == held_out["label"][:, 0]).mean()
print(f"test accuracy {right:.1%}")
if right < BAR:
    sys.exit(f"that is less than {BAR:.0%}")
