"""Large tensors part by part: what is computed at once must not hold the executor for long."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opstep_server.cli import in_view
from opstep_server.cli.session import Session
from opstep_server.wire import debug_pb2 as pb

ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Slab:
    # As an expression.
    text: str
    # Where it begins in the whole, and its own sizes.
    start: list[int]
    dims: list[int]

    def position(self, flat: int) -> list[int]:
        """Where in the whole the element stands of which so many of the slab are before it."""
        index: list[int] = []
        for start, size in zip(reversed(self.start), reversed(self.dims), strict=True):
            flat, at = divmod(flat, size)
            index.insert(0, start + at)
        return index


def of(text: str, dims: Sequence[int], most: int = ELEMENTS) -> Iterator[Slab]:
    """Parts of at most so many elements, in the order of the elements; mostly it is one."""
    whole = list(dims)
    if math.prod(whole) <= most:
        yield Slab(text, [0] * len(whole), whole)
        return
    # The first axis whose elements are small enough; those before it are taken one by one.
    axis = next(k for k in range(len(whole)) if math.prod(whole[k + 1 :]) <= most)
    step = most // max(math.prod(whole[axis + 1 :]), 1)
    ranges = [range(size) for size in whole[:axis]]
    for before in itertools.product(*ranges):
        for first in range(0, whole[axis], step):
            last = min(first + step, whole[axis])
            cuts = [*((index, index + 1) for index in before), (first, last)]
            start = [cut[0] for cut in cuts] + [0] * (len(whole) - len(cuts))
            sizes = [cut[1] - cut[0] for cut in cuts] + whole[len(cuts) :]
            slices = ", ".join(f"{cut[0]}:{cut[1]}" for cut in cuts)
            yield Slab(f"({text})[{slices}]", start, sizes)


async def first(session: Session, text: str, about: pb.Tensor, test: str) -> str:
    """` at [3, 1]`: the first element of which the test holds.

    Nothing when there is none: a large whole number is not what a float says of it.
    """
    for slab in of(text, about.dims):
        holds = test.format(f"({slab.text})")
        if (await in_view.evaluate(session, f"({holds}).any()")).b:
            at = await in_view.evaluate(session, f"argmax({holds})")
            return f" at {slab.position(at.i)}"
    return ""
