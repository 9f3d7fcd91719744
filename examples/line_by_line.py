"""Train a small network to read handwritten digits line by line: every op runs at once."""

import sys

import opstep
from opstep import datasets, imperative, layers, pictures

BAR = 0.95


class Digits(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = imperative.FC(32, act="relu")
        self.logits = imperative.FC(10)

    def forward(self, images):
        return self.logits(self.hidden(images))


# %% The data: images in shuffled order, 1,437 to learn from and 360 to test with.
train, _ = datasets.digits("train", batch=1437)()
held_out, _ = datasets.digits("test", batch=360)()
train_images, test_images = train["x"].reshape(-1, 64), held_out["x"].reshape(-1, 64)
train_labels, test_labels = train["label"], held_out["label"]
pictures.images(train["x"], train_labels)

# %% The training: values are there as soon as a line has run.
net, sgd = Digits(), opstep.optimizer.SGD(learning_rate=0.2)
losses = []
with imperative.guard():
    for epoch in range(1, 31):
        for at in range(0, len(train_images) - 31, 32):
            x = imperative.to_variable(train_images[at : at + 32])
            label = imperative.to_variable(train_labels[at : at + 32])
            loss = layers.mean(layers.softmax_with_cross_entropy(net(x), label))
            loss.backward()
            sgd.step(net.parameters())
            losses.append(float(loss))
        if epoch % 5 == 0:
            with imperative.no_grad():
                logits = net(imperative.to_variable(test_images))
                right = float(layers.accuracy(logits, imperative.to_variable(test_labels)))
            print(f"epoch {epoch:2}: loss {float(loss):.4f}, test accuracy {right:.1%}")
if right < BAR:
    sys.exit(f"that is less than {BAR:.0%}")
pictures.curve(losses, title="loss")

# %% The same network in a program, over the same memory.
main = opstep.Program("digits")
with opstep.program_guard(main, opstep.Program("startup")):
    scores = net(layers.data("x", shape=[None, 64]))
net.share()
main

# %% It gives the same results.
(compiled,) = opstep.Executor().run(main, feed={"x": test_images}, fetch_list=[scores])
print(f"compiled, the same bits: {compiled.tobytes() == logits.numpy().tobytes()}")
