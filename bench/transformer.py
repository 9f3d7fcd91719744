"""A small Transformer that predicts the next token, line by line in opstep and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import peers

from opstep import imperative, layers

BATCH, LENGTH, WIDTH, HEADS, BLOCKS, TOKENS = 16, 32, 64, 4, 2, 96
RATE = 0.01
_ROWS = BATCH * LENGTH
_SPLIT = [BATCH, LENGTH, HEADS, WIDTH // HEADS]
_SCALE = (WIDTH // HEADS) ** -0.5


class _Block(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = imperative.LayerNorm(), imperative.LayerNorm()
        self.q, self.k, self.v = (imperative.FC(WIDTH) for _ in range(3))
        self.joined = imperative.FC(WIDTH)
        self.wide, self.narrow = imperative.FC(4 * WIDTH, act="relu"), imperative.FC(WIDTH)

    def forward(self, x: Any) -> Any:
        h = self.before_attention(x)
        q = layers.transpose(layers.reshape(self.q(h), _SPLIT), [0, 2, 1, 3])
        k = layers.transpose(layers.reshape(self.k(h), _SPLIT), [0, 2, 3, 1])
        v = layers.transpose(layers.reshape(self.v(h), _SPLIT), [0, 2, 1, 3])
        h = layers.softmax(q @ k * _SCALE) @ v
        h = layers.reshape(layers.transpose(h, [0, 2, 1, 3]), [_ROWS, WIDTH])
        x = x + self.joined(h)
        return x + self.narrow(self.wide(self.before_mlp(x)))


class _Model(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.positions = layers.create_parameter([1, LENGTH, WIDTH])
        self.tokens = imperative.Embedding([TOKENS, WIDTH])
        self.blocks = imperative.Sequential(*(_Block() for _ in range(BLOCKS)))
        self.last, self.scores = imperative.LayerNorm(), imperative.FC(TOKENS)

    def forward(self, ids: Any) -> Any:
        x = layers.reshape(self.tokens(ids) + self.positions, [_ROWS, WIDTH])
        return self.scores(self.last(self.blocks(x)))


def _torch_model() -> Any:
    torch = peers.torch()
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.joined = nn.Linear(WIDTH, WIDTH)
            self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            h = self.before_attention(x)
            q = self.q(h).reshape(_SPLIT).permute(0, 2, 1, 3)
            k = self.k(h).reshape(_SPLIT).permute(0, 2, 3, 1)
            v = self.v(h).reshape(_SPLIT).permute(0, 2, 1, 3)
            h = torch.softmax(q @ k * _SCALE, dim=-1) @ v
            h = h.permute(0, 2, 1, 3).reshape(_ROWS, WIDTH)
            x = x + self.joined(h)
            return x + self.narrow(torch.relu(self.wide(self.before_mlp(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.zeros(1, LENGTH, WIDTH))
            self.tokens = nn.Embedding(TOKENS, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
            self.last, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

        def forward(self, ids: Any) -> Any:
            x = (self.tokens(ids) + self.positions).reshape(_ROWS, WIDTH)
            return self.scores(self.last(self.blocks(x)))

    return Model()


def _torch_step(model: Any, ids: np.ndarray, labels: np.ndarray) -> peers.Run:
    torch = peers.torch()
    theirs = _torch_model()
    with torch.no_grad():
        pairs = zip(theirs.named_parameters(), model.named_parameters(), strict=True)
        for (_, parameter), (name, value) in pairs:
            turned = value.numpy().ndim == 2 and not name.startswith("tokens")
            parameter.copy_(torch.from_numpy(value.numpy().T if turned else value.numpy()))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=RATE)
    x, label = torch.from_numpy(ids), torch.from_numpy(labels[:, 0])

    def run() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(theirs(x), label)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def steps(step_of: Callable[..., peers.Run]) -> tuple[peers.Run, peers.Run]:
    """A training step in opstep, which `step_of` makes of a model, and in PyTorch."""
    random = np.random.default_rng(0)
    ids = random.integers(0, TOKENS, (BATCH, LENGTH))
    labels = random.integers(0, TOKENS, (_ROWS, 1))
    with imperative.guard():
        model = _Model()
        with imperative.no_grad():
            model(imperative.to_variable(ids))  # makes the parameters
    return step_of(model, ids, labels, RATE), _torch_step(model, ids, labels)
