"""Layers as objects: parameters, names, state, training or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative, layers
from opstep.imperative import to_variable
from opstep.initializer import Constant

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Net(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = imperative.FC(4, act="relu")
        self.norm = imperative.BatchNorm()
        self.scale = layers.create_parameter([4], initializer=Constant(2.0))

    def forward(self, x: Any) -> Any:
        x = self.norm(self.hidden(x)) * self.scale
        return layers.fc(layers.fc(x, 3), 2)


@imperative.guard()
def made() -> Net:
    imperative.seed(0)
    net = Net()
    net(to_variable(X))
    return net


def test_parameters_are_found_by_their_names() -> None:
    net = made()
    names = [name for name, _ in net.named_parameters()]
    assert names == [
        "scale", "fc_0.w", "fc_0.b", "fc_1.w", "fc_1.b", "hidden.w", "hidden.b", "norm.w", "norm.b",
    ]  # fmt: skip
    assert [value.shape for value in net.parameters()[:3]] == [(4,), (4, 3), (3,)]
    assert not any(value.stop_gradient for value in net.parameters())
    assert {"norm.mean", "norm.var"} <= net.state_dict().keys()
    assert net.hidden.parameters()[0].name == "net/hidden.w"


def test_the_second_call_uses_the_parameters_of_the_first() -> None:
    with imperative.guard():
        net = Net()
        net.eval()
        first, before = net(to_variable(X)).numpy(), net.parameters()
        second = net(to_variable(X)).numpy()
    assert np.array_equal(first, second)
    assert [a is b for a, b in zip(before, net.parameters(), strict=True)] == [True] * 9


def test_inputs_must_keep_their_sizes() -> None:
    net = made()
    with imperative.guard(), pytest.raises(opstep.Error) as error:
        net(to_variable(np.zeros((2, 5), np.float32)))
    assert str(error.value).startswith(
        "'net/hidden.w' is float32[3, 4], but the layer now wants float32[5, 4]: its inputs must "
        "keep their sizes (test_layer.py:"
    )


def test_state_goes_to_another_net_and_back() -> None:
    net, other = made(), made()
    with imperative.guard():
        other(to_variable(X * 2))
        for value in other.parameters():
            np.copyto(value.numpy(), 1.0)
        state = net.state_dict()
        other.load_state_dict(state)
        for layer in (net, other):
            layer.eval()
        assert np.array_equal(net(to_variable(X)).numpy(), other(to_variable(X)).numpy())
    assert all(np.array_equal(state[name], value) for name, value in other.state_dict().items())


def test_state_that_does_not_fit() -> None:
    net = made()
    state = net.state_dict()
    with pytest.raises(opstep.Error, match=r"Net has no '.*' to load: call it once first, since"):
        Net().load_state_dict(state)
    with pytest.raises(opstep.Error, match=r"no 'hiden.w' to load; did you mean 'hidden.w'\?"):
        net.load_state_dict(state | {"hiden.w": X})
    with pytest.raises(opstep.Error, match=r"'hidden.w' is float32\[3, 4\] but the loaded"):
        net.load_state_dict(state | {"hidden.w": X})
    before = net.state_dict()
    assert all(np.array_equal(before[name], state[name]) for name in state), "nothing was changed"
    del state["hidden.w"]
    with pytest.raises(opstep.Error, match=r"'hidden\.w' of Net is not in the loaded state"):
        net.load_state_dict(state)


def test_train_and_eval_reach_all_layers() -> None:
    net = made()
    mean = net.state_dict()["norm.mean"]
    net.eval()
    with imperative.guard():
        net(to_variable(X + 5))
        assert np.array_equal(net.state_dict()["norm.mean"], mean)
        net.train()
        net(to_variable(X + 5))
    assert not np.array_equal(net.state_dict()["norm.mean"], mean)


def test_dropout_drops_while_training_only() -> None:
    drop = imperative.Dropout(0.5)
    with imperative.guard():
        x = to_variable(np.ones((50, 50), np.float32))
        dropped = drop(x).numpy()
        assert 0.3 < (dropped == 0).mean() < 0.7
        assert int(drop._values["count"]) == 1
        drop.eval()
        assert np.array_equal(drop(x).numpy(), x.numpy())


def test_parameters_not_to_be_trained_stay() -> None:
    with imperative.guard():
        net = imperative.FC(2, weight_attr={"learning_rate": 0.0})
        loss = layers.mean(net(to_variable(X)))
        w, b = (value.numpy().copy() for value in net.parameters())
        opstep.optimizer.SGD(0.1).minimize(loss, parameters=net.parameters())
        assert np.array_equal(net.parameters()[0].numpy(), w)
        assert not np.array_equal(net.parameters()[1].numpy(), b)
    with imperative.guard(), pytest.raises(opstep.Error, match="did you mean 'learning_rate'"):
        imperative.FC(2, weight_attr={"learning_rat": 0.0})(to_variable(X))


def test_minimize_wants_to_know_what_to_change() -> None:
    with imperative.guard(), pytest.raises(opstep.Error, match=r"parameters=model.parameters\(\)"):
        opstep.optimizer.SGD(0.1).minimize(to_variable(np.array(1.0)))


def test_hooks_see_each_call_and_may_change_its_result() -> None:
    net, seen = imperative.FC(2), []
    net.add_forward_hook(lambda layer, inputs, result: seen.append((layer, inputs, result)))
    net.add_forward_hook(lambda layer, inputs, result: result * 0)
    with imperative.guard():
        x = to_variable(X)
        assert (net(x).numpy() == 0).all()
    ((layer, inputs, result),) = seen
    assert layer is net and inputs == (x,) and (result.numpy() != 0).any()


def test_a_transposed_convolution_makes_images_larger() -> None:
    with imperative.guard():
        images = to_variable(np.ones((1, 2, 3, 3), np.float32))
        assert imperative.Conv2DTranspose(4, 2, stride=2)(images).shape == (1, 4, 6, 6)
        assert imperative.Pool2D(3)(images).shape == (1, 2, 1, 1)


def test_super_init_is_called_first() -> None:
    class Wrong(imperative.Layer):
        def __init__(self) -> None:
            self.inner = imperative.FC(2)

    with pytest.raises(opstep.Error, match=r"Wrong: call super\(\).__init__\(\) before setting"):
        Wrong()


def test_the_same_layer_adds_itself_to_a_program() -> None:
    with imperative.guard():
        net = imperative.Sequential(imperative.FC(4, act="tanh"), imperative.FC(2))
        now = net(to_variable(X)).numpy()
    main, scope = opstep.Program(), opstep.Scope()
    with opstep.program_guard(main, opstep.Program()):
        out = net(layers.data("x", shape=[None, 3]))
    net.share(scope)
    (compiled,) = opstep.Executor().run(main, {"x": X}, [out], scope)
    assert compiled.tobytes() == now.tobytes()


def test_a_layer_without_forward_says_so() -> None:
    class Empty(imperative.Layer):
        pass

    with (
        imperative.guard(),
        pytest.raises(opstep.Error, match=r"^Empty has no forward\(\): define"),
    ):
        Empty()(to_variable(X))


def test_layers_in_a_plain_list_would_be_lost() -> None:
    class Lost(imperative.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [imperative.FC(2)]

    with pytest.raises(opstep.Error, match=r"Lost: 'blocks' has layers in a list.*LayerList"):
        Lost()


def test_a_wrong_attribute_gets_a_suggestion() -> None:
    net = made()
    with pytest.raises(AttributeError, match=r"Net has no attribute 'scal'; did you mean 'scale'"):
        net.scal  # noqa: B018
    assert not hasattr(net, "nothing")
    del net.scale
    assert "scale" not in net.state_dict()
    net.hidden = None
    assert "hidden.w" not in net.state_dict()
