"""A multilayer perceptron reads handwritten digits, line by line (--imperative) or compiled."""

import sys

from switch import both_modes

import opstep
from opstep import datasets, imperative, layers, pictures

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 8)
BAR = 0.95


# %% The network: layers keep their parameters, which the first call makes.
class Mlp(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = imperative.FC(64, act="relu")
        self.drop = imperative.Dropout(0.1)
        self.logits = imperative.FC(10)

    def forward(self, images):
        return self.logits(self.drop(self.hidden(images)))


net, adam = Mlp(), opstep.optimizer.Adam(0.005)


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
    if epoch % 2 == 0:
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
