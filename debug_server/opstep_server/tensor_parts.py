"""Parts of a large tensor, so that no computation holds the executor for long."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    # Along the first axes; empty when the part is the whole.
    slices: tuple[str, ...]
    # Its start in the whole, and its sizes.
    start: list[int]
    dims: list[int]

    def cut(self, text: str) -> str:
        """The part of the tensor that the expression gives, as an expression."""
        return f"({text})[{', '.join(self.slices)}]" if self.slices else text

    def position(self, flat: int) -> list[int]:
        """The index in the whole of the element at a flat index of the part."""
        inside = unravel(flat, self.dims)
        return [start + at for start, at in zip(self.start, inside, strict=True)]


def parts(dims: Sequence[int], most: int) -> Iterator[Part]:
    """Parts of at most `most` elements, in the order of the elements; usually one."""
    whole = list(dims)
    if math.prod(whole) <= most:
        yield Part((), [0] * len(whole), whole)
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
            yield Part(tuple(f"{cut[0]}:{cut[1]}" for cut in cuts), start, sizes)


def unravel(flat: int, dims: Sequence[int]) -> list[int]:
    """The index of the element at a flat index."""
    index: list[int] = []
    for size in reversed(dims):
        flat, at = divmod(flat, size)
        index.insert(0, at)
    return index
