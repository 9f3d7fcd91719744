"""Which ops of a model run natively, and which ones torch runs: `opstep.torch.coverage`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opstep.torch.graph_program import Count

log = logging.getLogger("opstep.torch")


@dataclass
class Coverage:
    """Counts over the graphs that were compiled; `reasons`: why a target is foreign."""

    graphs: int = 0
    native: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The part of the ops that are native, from 0 to 1."""
        ops = self.native.total() + self.foreign.total()
        return self.native.total() / ops if ops else 1.0

    def __str__(self) -> str:
        graphs = "1 graph" if self.graphs == 1 else f"{self.graphs} graphs"
        native, foreign = self.native.total(), self.foreign.total()
        lines = [f"{graphs}, {native + foreign} ops: {native} native, {foreign} in torch"]
        for target, count in self.foreign.most_common():
            lines.append(f"  {target} × {count}: {self.reasons.get(target, '')}")
        return "\n".join(lines)


_recorders: list[Coverage] = []


@contextmanager
def recording() -> Iterator[Coverage]:
    """Collects the counts of the graphs that are compiled inside the `with`."""
    made = Coverage()
    _recorders.append(made)
    try:
        yield made
    finally:
        _recorders.remove(made)


def note(name: str, count: Count) -> None:
    """A graph was compiled."""
    foreign = count.foreign
    if foreign:
        which = ", ".join(f"{target} × {n}" for target, n in foreign.most_common())
        log.info("opstep: '%s': %d ops run in torch: %s", name, foreign.total(), which)
    for recorder in _recorders:
        recorder.graphs += 1
        recorder.native += count.native
        recorder.foreign += foreign
        recorder.reasons |= count.reasons


def coverage(model: Any, *args: Any, training: bool = False, **kwargs: Any) -> Coverage:
    """Compiles a model, runs it once with these arguments and says which ops are native. With
    `training` also the gradient of the sum of its results."""
    import torch

    from opstep.torch.backend import compiler

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=compiler())
    with recording() as made, torch.set_grad_enabled(training):
        result = compiled(*args, **kwargs)
        if training:
            tensors = [
                each
                for each in torch.utils._pytree.tree_leaves(result)
                if isinstance(each, torch.Tensor) and each.requires_grad
            ]
            sum(each.sum() for each in tensors).backward()  # type: ignore[union-attr]
    return made
