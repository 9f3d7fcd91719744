"""Recurrent layers, attention and lists of layers, against NumPy and in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative, layers
from opstep.imperative import to_variable

RNG = np.random.default_rng(0)
BATCH, STEPS, WIDTH, SIZE = 3, 4, 5, 6
X = RNG.normal(size=(BATCH, STEPS, WIDTH))
KEYS = RNG.normal(size=(BATCH, 7, WIDTH))
LENGTHS = np.array([4, 1, 3])
Arrays = dict[str, np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def rnn_step(p: Arrays, x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray]:
    return (np.tanh(x @ p["w_x"] + p["b"] + h @ p["w_h"]),)


def gru_step(p: Arrays, x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray]:
    x_r, x_z, x_n = np.split(x @ p["w_x"] + p["b"], 3, axis=-1)
    h_r, h_z, h_n = np.split(h @ p["w_h"], 3, axis=-1)
    z, n = sigmoid(x_z + h_z), np.tanh(x_n + sigmoid(x_r + h_r) * (h_n + p["b_n"]))
    return ((1 - z) * n + z * h,)


def lstm_step(p: Arrays, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    i, f, g, o = np.split(x @ p["w_x"] + p["b"] + h @ p["w_h"], 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


STEP_OF: dict[str, Callable[..., tuple[np.ndarray, ...]]] = {
    "RNN": rnn_step,
    "GRU": gru_step,
    "LSTM": lstm_step,
}


def reference(kind: str, cells: list[Arrays], ways: int, x: np.ndarray, lengths: np.ndarray) -> Any:
    """All layers and directions, row by row, each as long as it is."""
    count = 2 if kind == "LSTM" else 1
    last = np.zeros((count, len(cells), len(x), SIZE))
    for at in range(0, len(cells), ways):
        outs = np.zeros((len(x), x.shape[1], ways * SIZE))
        for way in range(ways):
            for row, length in enumerate(lengths):
                state: tuple[np.ndarray, ...] = (np.zeros(SIZE),) * count
                order = range(length) if way == 0 else reversed(range(length))
                for step in order:
                    state = STEP_OF[kind](cells[at + way], x[row, step], *state)
                    outs[row, step, way * SIZE : (way + 1) * SIZE] = state[0]
                last[:, at + way, row] = state
        x = outs
    return x, last


def cells_of(net: Any) -> list[Arrays]:
    return [{name: v.numpy() for name, v in cell._values.items()} for cell in net.cells]


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
@pytest.mark.parametrize(("depth", "both"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("kind", STEP_OF)
def test_recurrent_layers(kind: str, depth: int, both: bool, lengths: np.ndarray | None) -> None:
    net = getattr(imperative, kind)(SIZE, num_layers=depth, bidirectional=both)
    with imperative.guard():
        given = None if lengths is None else to_variable(lengths)
        outs, state = net(to_variable(X), lengths=given)
    full = np.full(BATCH, STEPS) if lengths is None else lengths
    expected, last = reference(kind, cells_of(net), 1 + both, X, full)
    assert outs.shape == (BATCH, STEPS, SIZE * (1 + both))
    np.testing.assert_allclose(outs.numpy(), expected, atol=1e-12)
    for got, want in zip(state if kind == "LSTM" else [state], last, strict=True):
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("kind", STEP_OF)
def test_a_cell_is_a_step_of_its_layer(kind: str) -> None:
    net, cell = getattr(imperative, kind)(SIZE), getattr(imperative, f"{kind}Cell")(SIZE)
    with imperative.guard():
        outs, last = net(to_variable(X))
        cell(to_variable(X[:, 0]))
        cell.load_state_dict({n: v.numpy() for n, v in net.cells[0]._values.items()})
        state = None
        for step in range(STEPS):
            state = cell(to_variable(X[:, step].copy()), state)
            h = state[0] if kind == "LSTM" else state
            np.testing.assert_allclose(h.numpy(), outs.numpy()[:, step], atol=1e-12)
        # Its end is where the next part of the sequences begins.
        rest, _ = net(to_variable(X), last)
        both, _ = net(to_variable(np.concatenate([X, X], axis=1)))
    np.testing.assert_allclose(rest.numpy(), both.numpy()[:, STEPS:], atol=1e-12)


def attention_reference(
    net: imperative.MultiHeadAttention, heads: int, q: np.ndarray, k: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    p = {name: value.numpy() for name, value in net.named_parameters()}
    rows = np.zeros((len(q), q.shape[1], SIZE))
    width = SIZE // heads
    queries, keys, values = (
        x @ p[f"{part}.w"] + p[f"{part}.b"] for x, part in ((q, "query"), (k, "key"), (k, "value"))
    )
    for row in range(len(q)):
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = queries[row, :, part] @ keys[row, :, part].T / np.sqrt(width)
            shares = np.exp(scores) * np.broadcast_to(mask, (len(q), *scores.shape))[row]
            rows[row, :, part] = shares / shares.sum(-1, keepdims=True) @ values[row, :, part]
    return rows @ p["out.w"] + p["out.b"]


def test_attention() -> None:
    net = imperative.MultiHeadAttention(SIZE, heads=2)
    with imperative.guard():
        x, keys = to_variable(X), to_variable(KEYS)
        lengths = np.array([7, 2, 5])
        inside = np.arange(7) < lengths[:, None, None]
        cases = [
            (net(x), X, np.ones((STEPS, STEPS))),
            (net(x, keys), KEYS, np.ones((STEPS, 7))),
            (net(x, causal=True), X, np.tri(STEPS)),
            (net(x, keys, causal=True), KEYS, np.tri(STEPS, 7, 3)),
            (net(x, mask=imperative.causal_mask(STEPS)), X, np.tri(STEPS)),
            (net(x, keys, mask=imperative.length_mask(to_variable(lengths), 7)), KEYS, inside),
            (net(x, mask=to_variable(np.log(np.tri(STEPS) + 1.0))), X, np.tri(STEPS) + 1),
        ]
        out, shares = net(x, keys, weights=True)
    for got, keys_now, mask in cases:
        expected = attention_reference(net, 2, X, keys_now, mask)
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
    assert shares.shape == (BATCH, 2, STEPS, 7)
    np.testing.assert_allclose(shares.numpy().sum(-1), 1)
    assert np.array_equal(out.numpy(), cases[1][0].numpy())


class Read(imperative.Layer):
    """One number of a layer, for gradients."""

    def __init__(self, inner: imperative.Layer) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any, lengths: Any) -> Any:
        if isinstance(self.inner, imperative.MultiHeadAttention):
            mask = imperative.length_mask(lengths, STEPS)
            return layers.mean(layers.square(self.inner(x, mask=mask, causal=True)))
        outs, state = self.inner(x, lengths=lengths)
        states = state if isinstance(state, tuple) else (state,)
        total = layers.mean(layers.square(outs))
        for part in states:
            total = total + layers.mean(part * part * part)
        return total


INNER: dict[str, Callable[[], imperative.Layer]] = {
    "RNN": lambda: imperative.RNN(SIZE, act="sigmoid", num_layers=2),
    "GRU": lambda: imperative.GRU(SIZE, bidirectional=True),
    "LSTM": lambda: imperative.LSTM(SIZE, num_layers=2, bidirectional=True),
    "attention": lambda: imperative.MultiHeadAttention(SIZE, heads=3),
}


@pytest.mark.parametrize("kind", INNER)
def test_gradients_are_those_of_central_differences(kind: str) -> None:
    imperative.seed(3)
    net, eps = Read(INNER[kind]()), 1e-5
    choose = np.random.default_rng(1)
    with imperative.guard():
        x, lengths = to_variable(X.copy(), stop_gradient=False), to_variable(LENGTHS)
        net(x, lengths).backward()
        for value in [x, *net.parameters()]:
            assert value.gradient is not None, value.name
            flat, gradient = value.numpy().reshape(-1), value.gradient.numpy().reshape(-1)
            for at in choose.choice(flat.size, size=min(6, flat.size), replace=False):
                before, ends = flat[at], []
                for change in (eps, -eps):
                    flat[at] = before + change
                    with imperative.no_grad():
                        ends.append(float(net(x, lengths)))
                flat[at] = before
                slope = (ends[0] - ends[1]) / (2 * eps)
                assert gradient[at] == pytest.approx(slope, rel=1e-4, abs=1e-9), value.name


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", INNER)
def test_gradients_are_the_same_bits_in_both_modes(kind: str, dropout: float) -> None:
    def made() -> Read:
        net = Read(INNER[kind]())
        if dropout and kind == "attention":
            net.inner = imperative.MultiHeadAttention(SIZE, heads=3, dropout=dropout)
        elif dropout:
            net.inner = getattr(imperative, kind)(SIZE, num_layers=2, dropout=dropout)
        return net

    x = X.astype(np.float32)
    imperative.seed(7)
    net = made()
    with imperative.guard():
        losses = [net(to_variable(x), to_variable(LENGTHS)) for _ in range(2)]
        (losses[0] + losses[1]).backward()
    now = {p.name: p.gradient.numpy() for p in net.parameters()}

    main, startup, scope = opstep.Program(), opstep.Program(), opstep.Scope()
    main.random_seed = 7
    with opstep.program_guard(main, startup):
        net = made()
        x_fed = layers.data("x", [None, STEPS, WIDTH])
        lengths = layers.data("lengths", [None], dtype="int64")
        first, second = net(x_fed, lengths), net(x_fed, lengths)
        pairs = opstep.append_backward(first + second)
    exe = opstep.Executor()
    exe.run(startup, scope=scope)
    fetched = exe.run(
        main, {"x": x, "lengths": LENGTHS}, [first, second, *(g for _, g in pairs)], scope
    )
    assert [v.tobytes() for v in fetched[:2]] == [v.numpy().tobytes() for v in losses]
    assert (fetched[0] == fetched[1]) == (dropout == 0), "a dropout drops others at each call"
    compiled = {p.name: g for (p, _), g in zip(pairs, fetched[2:], strict=True)}
    assert compiled.keys() == now.keys()
    for name, gradient in compiled.items():
        assert gradient.tobytes() == now[name].tobytes(), name


def test_layers_in_a_list_and_in_a_row() -> None:
    class Net(imperative.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = imperative.LayerList([imperative.FC(3), imperative.FC(3)])
            self.blocks.append(imperative.FC(3))
            self.tail = imperative.Sequential(imperative.FC(2), layers.tanh)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.tail(x)

    net = Net()
    with imperative.guard():
        net(to_variable(np.ones((1, 3), np.float32)))
    names = [name for name, _ in net.named_parameters()]
    assert names == [f"blocks_{n}.{p}" for n in range(3) for p in "wb"] + [
        "tail.step_0.w",
        "tail.step_0.b",
    ]
    assert net.blocks[2].w.name == "net/blocks_2.w"
    assert len(net.blocks) == 3 and net.tail[1] is layers.tanh and len(net.tail) == 2


def test_a_fully_connected_layer_for_each_step() -> None:
    net = imperative.FC(2, axis=-1)
    with imperative.guard():
        out = net(to_variable(X))
    w, b = (value.numpy() for value in net.parameters())
    assert w.shape == (WIDTH, 2)
    np.testing.assert_allclose(out.numpy(), X @ w + b, atol=1e-12)


def value(*shape: int) -> Any:
    return to_variable(np.zeros(shape, np.float32), name="x")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: imperative.FC(2, activation="relu"), "FC has no option 'activation'; "),
        (lambda: imperative.Conv2D(2, 3, strid=2), "did you mean 'stride'?"),
        (lambda: imperative.LSTM(0), "size is 0, it must be 1 or more"),
        (lambda: imperative.GRU(2, num_layers=0), "GRU: num_layers is 0"),
        (lambda: imperative.MultiHeadAttention(6, 4), "4 heads cannot divide the size 6"),
        (lambda: imperative.LSTM(2)(value(2, 3)), "[LSTM] 'x' is [2, 3]: it must be [batch, steps"),
        (lambda: imperative.LSTM(2)(value(2, 0, 3)), "[LSTM] 'x' is [2, 0, 3]: there must be"),
        (lambda: imperative.LSTM(2)(value(2, 3, 3), value(1, 2, 2)), "must be the pair (h, c)"),
        (lambda: imperative.GRU(2)(value(2, 3, 3), value(2, 2)), "it must be [1, batch, size]"),
        (lambda: imperative.RNNCell(2)(value(2, 3, 3)), "one step is [batch, width]"),
        (lambda: imperative.RNN(2, act="tan_h"), "did you mean 'tanh'?"),
        (lambda: imperative.MultiHeadAttention(2, 1)(value(2, 2)), "must be [batch, steps, width]"),
        (lambda: imperative.FC(2, axis=3)(value(2, 2, 2)), "axis 3 is not behind the batch of 'x'"),
        (lambda: imperative.Sequential(3), "3 is neither a layer nor a function"),
        (lambda: imperative.LayerList([3]), "3 is not a Layer"),
        (lambda: imperative.LayerList()(3), "call its layers, or use Sequential"),
    ],
)
def test_wrong_use_is_told_in_a_sentence(wrong: Callable[[], Any], says: str) -> None:
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        wrong()
    assert says in str(error.value)


def test_steps_of_a_program_must_be_known() -> None:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        x = layers.data("x", [None, None, 3])
        with pytest.raises(opstep.Error, match=r"'x' is \[\?, \?, 3\].*layers.Recurrent takes any"):
            imperative.LSTM(2)(x)
        with pytest.raises(opstep.Error, match=r"with causal=True the number of steps must be"):
            imperative.MultiHeadAttention(3, 1)(x, causal=True)
        assert imperative.MultiHeadAttention(4, 2)(x).shape == (None, None, 4)
