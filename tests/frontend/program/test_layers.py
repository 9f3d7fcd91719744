"""Layers against NumPy: what they compute, what they are called, and what is wrong use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opstep
from harness.layer_cases import IMAGES, LABEL, SIMPLE, P, X
from opstep import layers

RNG = np.random.default_rng(5)
IDS = np.array([[1, 0, 4], [4, 4, 2]])


def run(world, *fetches: opstep.Variable, **feed: np.ndarray) -> list[np.ndarray]:
    world.exe.run(world.startup)
    return world.exe.run(world.main, feed=feed, fetch_list=list(fetches))


def data(name: str, array: np.ndarray) -> opstep.Variable:
    return layers.data(name, [None, *array.shape[1:]], str(array.dtype))


def test_every_layer_is_documented() -> None:
    found = {n: getattr(layers, n) for n in dir(layers) if not n.startswith("_")}
    callables = {name: layer for name, layer in found.items() if callable(layer)}
    assert len(callables) > 120
    assert [name for name, layer in callables.items() if not layer.__doc__] == []
    # What is not a layer stays out of the way.
    modules = {"activation", "control_flow", "conv", "loss", "math", "nn", "norm"}
    modules |= {"recurrent_block", "sequence", "tensor"}
    assert set(found) - set(callables) == modules


# --- layers of one tensor -----------------------------------------------------------------------


@pytest.mark.parametrize("name", SIMPLE)
def test_a_layer_of_one_tensor(world, name: str) -> None:
    layer, expected = SIMPLE[name]
    (value,) = run(world, layer(layers.data("x", list(X.shape))), x=X)
    wanted = np.asarray(expected(X))
    assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


# --- losses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [False, True])
def test_cross_entropy(world, flat: bool) -> None:
    label = LABEL[:, 0] if flat else LABEL
    loss = layers.cross_entropy(data("p", P), data("label", label))
    (value,) = run(world, loss, p=P, label=label)
    expected = -np.log(np.take_along_axis(P, LABEL, 1))
    np.testing.assert_allclose(value, expected[:, 0] if flat else expected, rtol=1e-5)
    assert loss.name == "cross_entropy_0.loss"


def test_cross_entropy_with_soft_labels(world) -> None:
    soft = P[::-1].copy()
    loss = layers.cross_entropy(data("p", P), data("soft", soft), soft_label=True)
    (value,) = run(world, loss, p=P, soft=soft)
    np.testing.assert_allclose(value, -(soft * np.log(P)).sum(1, keepdims=True), rtol=1e-5)


def test_cross_entropy_is_softmax_with_cross_entropy(world) -> None:
    x, label = data("x", X), data("label", LABEL)
    both = [
        layers.cross_entropy(layers.softmax(x), label),
        layers.softmax_with_cross_entropy(x, label),
    ]
    one, other = run(world, *both, x=X, label=LABEL)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_accuracy(world) -> None:
    label = X.argmax(axis=1)[:, None]
    label[0] = (label[0] + 1) % 4
    (value,) = run(world, layers.accuracy(data("x", X), data("label", label)), x=X, label=label)
    assert value == pytest.approx(2 / 3)


def test_accuracy_of_the_best_classes(world) -> None:
    label = np.argsort(X)[:, 1:2]  # the third best of four
    x, y = data("x", X), data("label", label)
    two, three = run(world, *(layers.accuracy(x, y, k=k) for k in (2, 3)), x=X, label=label)
    assert (two, three) == (0, 1)


# --- layers with parameters ---------------------------------------------------------------------


def convolve(
    x: np.ndarray, w: np.ndarray, pads: list[tuple[int, int]], stride: int = 1, groups: int = 1
) -> np.ndarray:
    """The convolution of two dimensions as its definition says."""
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    parts = zip(np.split(windows, groups, axis=1), np.split(w, groups), strict=True)
    return np.concatenate([np.einsum("nchwij,mcij->nmhw", v, k) for v, k in parts], axis=1)


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({}, {"pads": [(0, 0), (0, 0)]}),
        ({"padding": 1, "stride": 2}, {"pads": [(1, 1), (1, 1)], "stride": 2}),
        ({"padding": [2, 0]}, {"pads": [(2, 2), (0, 0)]}),
        ({"padding": [(0, 1), (2, 0)]}, {"pads": [(0, 1), (2, 0)]}),
        ({"padding": "same"}, {"pads": [(1, 1), (0, 1)]}),
        ({"padding": "valid"}, {"pads": [(0, 0), (0, 0)]}),
        ({"groups": 2}, {"pads": [(0, 0), (0, 0)], "groups": 2}),
    ],
    ids=repr,
)
def test_conv2d(world, options: dict[str, Any], same: dict[str, Any]) -> None:
    init = opstep.initializer.Normal()
    out = layers.conv2d(
        data("x", IMAGES), 6, [3, 2], act="relu", weight_init=init, bias_init=init, **options
    )
    (value,) = run(world, out, x=IMAGES)
    w, b = world.scope.find("conv2d_0.w"), world.scope.find("conv2d_0.b")
    expected = convolve(IMAGES, w, **same) + b[:, None, None]
    np.testing.assert_allclose(value, np.maximum(expected, 0), rtol=1e-4, atol=1e-5)
    assert out.name == "conv2d_0.out" and out.shape == (None, *value.shape[1:])


def test_conv_of_other_ranks(world) -> None:
    sequence, volume = IMAGES.reshape(2, 4, 30), IMAGES.reshape(2, 4, 5, 3, 2)
    one = layers.conv1d(data("s", sequence), 3, 5, padding="same", bias=False)
    three = layers.conv3d(data("v", volume), 3, [3, 2, 1], stride=[2, 1, 1], name="deep")
    assert (one.shape, three.shape) == ((None, 3, 30), (None, 3, 2, 2, 2))
    got = run(world, one, three, s=sequence, v=volume)
    assert [value.shape for value in got] == [(2, 3, 30), (2, 3, 2, 2, 2)]
    w = world.scope.find("conv1d_0.w")[:, :, None]
    expected = convolve(sequence[:, :, None], w, [(0, 0), (2, 2)])
    np.testing.assert_allclose(got[0], expected[:, :, 0], rtol=1e-4, atol=1e-5)
    assert three.name == "deep.out" and "conv1d_0.b" not in world.scope


@pytest.mark.parametrize(("pool_type", "function"), [("max", np.max), ("average", np.mean)])
def test_pool2d(world, pool_type: str, function: Callable[..., Any]) -> None:
    out = layers.pool2d(data("x", IMAGES), 2, pool_type)
    (value,) = run(world, out, x=IMAGES)
    blocks = IMAGES[:, :, :, :4].reshape(2, 4, 3, 2, 2, 2)
    np.testing.assert_allclose(value, function(blocks, axis=(3, 5)), rtol=1e-5)
    assert out.name == "pool2d_0.out"


def test_pool2d_with_steps_and_padding(world) -> None:
    out = layers.pool2d(data("x", IMAGES), 3, "average", stride=1, padding=1)
    (value,) = run(world, out, x=IMAGES)
    np.testing.assert_allclose(value[:, :, 0, 0], IMAGES[:, :, :2, :2].mean((2, 3)), rtol=1e-4)
    assert value.shape == IMAGES.shape


def test_global_pools(world) -> None:
    x = data("x", IMAGES)
    mean, largest = run(world, layers.global_average_pool(x), layers.global_max_pool(x), x=IMAGES)
    np.testing.assert_allclose(mean, IMAGES.mean((2, 3), keepdims=True), rtol=1e-4, atol=1e-6)
    assert np.array_equal(largest, IMAGES.max((2, 3), keepdims=True))


def test_conv_transpose_turns_conv_round(world) -> None:
    """sum(conv(x) * y) == sum(x * conv_transpose(y)) for the same weights."""
    x, y = data("x", IMAGES), layers.data("y", [2, 6, 3, 3])
    small = layers.conv2d(x, 6, 2, stride=2, padding=[(0, 0), (0, 1)], bias=False)
    options = {"stride": 2, "padding": [(0, 0), (0, 1)], "bias": False}
    large = layers.conv2d_transpose(y, 4, 2, **options)
    assert small.shape == (None, 6, 3, 3) and large.shape == (2, 4, 6, 5)
    world.exe.run(world.startup)
    world.scope.set("conv2d_transpose_0.w", world.scope.find("conv2d_0.w"))
    ys = RNG.uniform(-1, 1, (2, 6, 3, 3)).astype(np.float32)
    a, b = world.exe.run(feed={"x": IMAGES, "y": ys}, fetch_list=[small, large])
    assert (a * ys).sum() == pytest.approx((b * IMAGES).sum(), rel=1e-3)


def test_conv_transpose_of_other_ranks(world) -> None:
    one = layers.conv1d_transpose(layers.data("a", [2, 4, 7]), 3, 4, stride=2, output_padding=1)
    three = layers.conv3d_transpose(layers.data("b", [2, 4, 3, 3, 3]), 6, 2, groups=2, act="relu")
    assert (one.shape, three.shape) == ((2, 3, 17), (2, 6, 4, 4, 4))


# --- normalization ------------------------------------------------------------------------------


def normal(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


NORMS: list[tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = [
    (layers.batch_norm, lambda x: normal(x, (0, 2, 3))),
    (layers.layer_norm, lambda x: normal(x, (1, 2, 3))),
    (lambda x: layers.layer_norm(x, axis=-1), lambda x: normal(x, (3,))),
    (layers.instance_norm, lambda x: normal(x, (2, 3))),
    (
        lambda x: layers.group_norm(x, 2),
        lambda x: normal(x.reshape(2, 2, -1), (2,)).reshape(x.shape),
    ),
    (lambda x: layers.group_norm(x, 4, act="relu"), lambda x: np.maximum(normal(x, (2, 3)), 0)),
    (
        lambda x: layers.l2_normalize(x, axis=1),
        lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
    ),
]


@pytest.mark.parametrize(("layer", "expected"), NORMS)
def test_normalization(world, layer, expected) -> None:
    out = layer(data("x", IMAGES))
    (value,) = run(world, out, x=IMAGES)
    np.testing.assert_allclose(value, expected(IMAGES), rtol=1e-3, atol=1e-5)
    assert out.name.endswith("_0.out")


def test_batch_norm_keeps_running_moments_for_tests(world) -> None:
    out = layers.batch_norm(data("x", IMAGES), act="relu", momentum=0.75)
    loss = layers.mean(out * out)
    opstep.optimizer.SGD(0.0).minimize(loss)
    assert [p.name for p in world.main.parameters() if not p.trainable] == [
        "batch_norm_0.mean",
        "batch_norm_0.var",
    ]
    test = world.main.clone(for_test=True)
    world.exe.run(world.startup)
    mean, var = np.zeros(4), np.ones(4)
    for _ in range(3):
        world.exe.run(world.main, {"x": IMAGES})
        mean = 0.75 * mean + 0.25 * IMAGES.mean((0, 2, 3))
        var = 0.75 * var + 0.25 * IMAGES.var((0, 2, 3))
    np.testing.assert_allclose(world.scope.find("batch_norm_0.mean"), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(world.scope.find("batch_norm_0.var"), var, rtol=1e-4)
    kept = world.scope.find("batch_norm_0.mean")
    (value,) = test.run({"x": IMAGES}, [out])
    each = (slice(None), None, None)
    expected = (IMAGES - mean[each]) / np.sqrt(var[each] + 1e-5)
    np.testing.assert_allclose(value, np.maximum(expected, 0), rtol=1e-3, atol=1e-5)
    assert np.array_equal(world.scope.find("batch_norm_0.mean"), kept)


def test_batch_norm_that_is_a_test_from_the_start(world) -> None:
    out = layers.batch_norm(data("x", IMAGES), is_test=True, epsilon=0.0)
    (value,) = run(world, out, x=IMAGES)
    np.testing.assert_allclose(value, IMAGES, rtol=1e-6)


# --- rows of parameters -------------------------------------------------------------------------


@pytest.mark.parametrize("padding", [None, 4, -1])
def test_embedding(world, padding: int | None) -> None:
    out = layers.embedding(data("ids", IDS), [5, 3], padding_idx=padding)
    (value,) = run(world, out, ids=IDS)
    expected = world.scope.find("embedding_0.w")[IDS]
    if padding is not None:
        expected[IDS == 4] = 0
    assert np.array_equal(value, expected)
    assert out.shape == (None, 3, 3) and out.name == "embedding_0.out"


def test_the_padding_of_an_embedding_is_not_learned(world) -> None:
    out = layers.embedding(data("ids", IDS), [5, 3], padding_idx=4)
    ((_, gradient),) = opstep.append_backward(layers.reduce_sum(out))
    (value,) = run(world, gradient, ids=IDS)
    assert np.array_equal(value[:, 0], [1, 1, 1, 0, 0])


def test_rows_by_a_variable(world) -> None:
    (value,) = run(world, data("x", X)[data("ids", LABEL[:2, 0])], x=X, ids=LABEL[:2, 0])
    assert np.array_equal(value, X[LABEL[:2, 0]])


def test_dropout(world) -> None:
    x = layers.data("x", [1000])
    out = layers.dropout(x, 0.25)
    world.exe.run(world.startup)
    feed = {"x": np.ones(1000, np.float32)}
    first, second = (world.exe.run(world.main, feed, [out])[0] for _ in range(2))
    for value in (first, second):
        assert set(value.tolist()) == {0, np.float32(1 / 0.75)}
        assert 0.2 < (value == 0).mean() < 0.3
    assert not np.array_equal(first, second)
    assert world.scope.find("dropout_0.count") == 2
    # The same seed and count, the same elements.
    world.exe.run(world.startup)
    assert np.array_equal(world.exe.run(world.main, feed, [out])[0], first)


def test_dropout_is_not_for_tests(world) -> None:
    x = layers.data("x", [None, 4])
    out = layers.dropout(layers.fc(x, 50), seed=3)
    opstep.optimizer.SGD(0.1).minimize(layers.mean(out))
    test = world.main.clone(for_test=True)
    world.exe.run(world.startup)
    world.exe.run(world.main, {"x": X})
    got = test.run({"x": X}, [out, "fc_0.out"])
    assert np.array_equal(*got)
    assert world.scope.find("dropout_0.count") == 1, "a test is not counted"
    assert layers.dropout(x, is_test=True) is x


def test_a_parameter_of_ones_own(world) -> None:
    with opstep.name_scope("mine"):
        scale = layers.create_parameter(
            [4],
            name="scale",
            initializer=opstep.initializer.Constant(2),
            optimize_attr={"grad_clip": 0},
        )
    assert scale.name == "mine/scale" and scale.optimize_attr == {"grad_clip": 0}
    (value,) = run(world, data("x", X) * scale, x=X)
    assert np.array_equal(value, X * 2)


def test_attributes_of_parameters(world) -> None:
    layers.fc(data("x", X), 2, weight_attr={"learning_rate": 0.5}, bias_attr={"weight_decay": 0.0})
    w, b = world.main.parameters()
    assert (w.optimize_attr, b.optimize_attr) == ({"learning_rate": 0.5}, {"weight_decay": 0.0})


@pytest.mark.parametrize("act", ["relu", "gelu", "silu", "softmax", "exp"])
def test_any_activation_by_its_name(world, act: str) -> None:
    x = data("x", X)
    out, plain = layers.fc(x, 3, act=act, name="a"), layers.fc(x, 3, name="b")
    world.exe.run(world.startup)
    for part in "wb":
        world.scope.set(f"b.{part}", world.scope.find(f"a.{part}"))
    got = world.exe.run(feed={"x": X}, fetch_list=[out, getattr(layers, act)(plain)])
    assert np.array_equal(got[0], got[1])


# --- wrong use ----------------------------------------------------------------------------------


def image() -> opstep.Variable:
    return data("image", IMAGES)


WRONG: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda x, ids: layers.fc(x, 2, act="rellu"), r"\[fc\] act='rellu': .* mean 'relu'"),
    (lambda x, ids: layers.fc(x, 2, act="matmul"), r"\[fc\] .* not a function of one variable"),
    (lambda x, ids: layers.fc(x[0], 2), r"\[fc\] .* needs a batch and features"),
    (lambda x, ids: layers.concat([]), r"\[concat\] there are no tensors"),
    (lambda x, ids: layers.stack([x, x[0]]), r"\[stack\] .* all shapes must be equal"),
    (lambda x, ids: layers.split(x, 0), r"\[split\] 'x' cannot be cut into 0 parts"),
    (lambda x, ids: layers.embedding(x, [3, 4]), r"\[embedding\] 'x' is float32: ids must be"),
    (lambda x, ids: layers.embedding(IDS, [3, 4]), r"\[embedding\] takes a variable .* ndarray"),
    (lambda x, ids: layers.embedding(ids, [3]), r"\[embedding\] size is \[3\]"),
    (lambda x, ids: layers.embedding(ids, [3, 2], padding_idx=3), "padding_idx is 3, but there"),
    (lambda x, ids: layers.cross_entropy(x, ids), r"\[cross_entropy\] label is .* but X is"),
    (lambda x, ids: layers.conv2d(x, 2, 3), r"\[conv2d\] .* it needs 4 dimensions"),
    (lambda x, ids: layers.conv2d(image(), 4, 3, groups=3), "3 groups must divide both"),
    (lambda x, ids: layers.conv2d(image(), 4, [3]), r"kernel is \[3\]: .* or 2 of them"),
    (lambda x, ids: layers.conv2d(image(), 4, 3, stride=0), "stride is 0: it must be a number, 1"),
    (lambda x, ids: layers.conv2d(image(), 4, 3, padding="full"), "padding is 'full': it must"),
    (lambda x, ids: layers.conv2d(image(), 4, 3, padding=[1]), r"padding is \[1\]: it must be a"),
    (lambda x, ids: layers.pool2d(image(), 2, "sum"), "must be 'max' or 'average'"),
    (lambda x, ids: layers.prelu(x[0], per_channel=True), r"\[prelu\] .* axis 1, must be known"),
    (lambda x, ids: ids + float("inf"), r"\[add\] Y is inf, which 'ids' of dtype int64 cannot"),
    (lambda x, ids: layers.batch_norm(x[0]), r"\[batch_norm\] .* axis 1, must be known"),
    (lambda x, ids: layers.group_norm(image(), 3), "4 channels: 3 groups cannot divide them"),
    (lambda x, ids: layers.layer_norm(x, axis=2), "axis 2 is outside 'x', which is"),
    (lambda x, ids: layers.layer_norm(x, axis=0), "sizes from axis 0 must be known"),
    (lambda x, ids: layers.pad(x, [(1, 2)]), r"\[pad\] .* pads must be 2 pairs"),
    (lambda x, ids: layers.clip(x), r"\[clip\] 'x' needs a min or a max"),
    (lambda x, ids: x[x], "'x' is float32; only integers are indexes"),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_use_is_one_sentence_with_the_users_line(world, make, message: str) -> None:
    x, ids = data("x", X), data("ids", IDS)
    with pytest.raises(opstep.Error, match=f"{message}.*test_layers.py:\\d+"):
        make(x, ids)
