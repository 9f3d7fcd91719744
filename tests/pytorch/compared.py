"""Runs functions through the backend and in eager mode, and compares all that a user can see."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from opstep.torch import Coverage, backend, compiler
from opstep.torch.coverage import recording


def leaves(tree: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(tree)


def same(
    function: Callable[..., Any],
    *args: Any,
    gradients: bool = False,
    foreign: bool = False,
    exact: bool = False,
    dynamic: bool | None = None,
) -> Coverage:
    """Results, their dtypes and strides, changes of the arguments and gradients are as in eager."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    compiled = torch.compile(
        function, backend=compiler(True) if foreign else backend, fullgraph=True, dynamic=dynamic
    )
    with recording() as count:
        torch.manual_seed(5)
        got = compiled(*ours)
        torch.manual_seed(5)
        wanted = function(*theirs)
        check(got, wanted, exact)
        if gradients:
            total(got).backward()
            total(wanted).backward()
            check([t.grad for t in leaves(ours)], [t.grad for t in leaves(theirs)], exact)
    check(ours, theirs, exact)
    assert count.graphs > 0
    return count


def total(tree: Any) -> torch.Tensor:
    """A number that depends on each element of the results in a different way."""
    parts = [t for t in leaves(tree) if isinstance(t, torch.Tensor) and t.requires_grad]
    made = [(t.double() * torch.arange(1, t.numel() + 1).view(t.shape).cos()).sum() for t in parts]
    return torch.stack(made).sum()


def check(got: Any, wanted: Any, exact: bool = False) -> None:
    assert len(leaves(got)) == len(leaves(wanted))
    for ours, theirs in zip(leaves(got), leaves(wanted), strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert ours == theirs
            continue
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.numel() > 1:
            assert ours.stride() == theirs.stride()
        limits = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(ours, theirs, equal_nan=True, **limits)
