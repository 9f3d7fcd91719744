"""Whole models through the backend: outputs, losses, gradients and training as with aot_eager."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_models

from opstep.torch import backend
from opstep.torch.coverage import recording

MODELS = pytest.mark.parametrize("name", torch_models.NAMES)
# At most, of the ops in inference and in training: attention, and lookups by several tensors.
FOREIGN = {"mlp": 0, "conv net": 0, "resnet-18": 0, "bert": 0.03, "gpt-2": 0.05}
STEPS = 10


@MODELS
def test_inference(name: str) -> None:
    model, args, _ = torch_models.make(name)
    model.eval()
    with torch.no_grad(), recording() as count:
        got = torch.compile(model, backend=backend)(*args)
        wanted = torch.compile(copy.deepcopy(model), backend="aot_eager")(*args)
    torch.testing.assert_close(got, wanted)
    assert 1 - count.share <= FOREIGN[name], str(count)


@MODELS
def test_training(name: str) -> None:
    """In float64, where rounding cannot hide an error nor grow into a difference."""
    ours, args, classes = torch_models.make(name)
    args = tuple(a.double() if a.is_floating_point() else a for a in args)
    ours.double()
    theirs = copy.deepcopy(ours)
    with recording() as count:
        pairs = [
            (model, torch.compile(model, backend=how), torch.optim.SGD(model.parameters(), 0.05))
            for model, how in ((ours, backend), (theirs, "aot_eager"))
        ]
        for _ in range(STEPS):
            losses = []
            for _, compiled, optimizer in pairs:
                optimizer.zero_grad()
                losses.append(torch_models.loss_of(compiled(*args), classes))
                losses[-1].backward()
            torch.testing.assert_close(losses[0], losses[1])
            for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(mine.grad, other.grad)
            for _, _, optimizer in pairs:
                optimizer.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    assert 1 - count.share <= FOREIGN[name], str(count)


def test_float32_gradients() -> None:
    for name in torch_models.NAMES:
        torch._dynamo.reset()
        ours, args, classes = torch_models.make(name)
        theirs = copy.deepcopy(ours)
        for model, how in ((ours, backend), (theirs, "aot_eager")):
            compiled = torch.compile(model, backend=how)
            torch_models.loss_of(compiled(*args), classes).backward()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["conv net", "gpt-2"])
def test_the_whole_model_runs_with_foreign_ops_only(name: str) -> None:
    from opstep.torch import compiler

    model, args, classes = torch_models.make(name)
    theirs = copy.deepcopy(model)
    with recording() as count:
        for each, how in ((model, compiler(force_foreign=True)), (theirs, "aot_eager")):
            torch_models.loss_of(torch.compile(each, backend=how)(*args), classes).backward()
    assert count.share == 0
    for mine, other in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)
