"""Parts of a tensor: together they are all of it, in order, and each knows where it stands."""

from __future__ import annotations

import numpy as np
import pytest

from opstep_server import tensor_parts


@pytest.mark.parametrize("most", [1, 4, 7, 24, 1000])
@pytest.mark.parametrize("shape", [(), (5,), (1, 24), (2, 3, 4), (4, 1, 6), (24, 1), (0, 3)])
def test_parts_are_the_whole(shape: tuple[int, ...], most: int):
    x = np.arange(int(np.prod(shape))).reshape(shape)
    seen: list[int] = []
    for each in tensor_parts.parts(shape, most):
        part = eval(each.cut("x"), {"x": x})
        assert list(part.shape) == each.dims and part.size <= max(most, 1)
        for flat, element in enumerate(part.ravel()):
            assert x[tuple(each.position(flat))] == element
        seen += part.ravel().tolist()
    assert seen == x.ravel().tolist()
