"""Random small functions, nested deep: the same bits line by line and compiled."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative

FUNCTIONS = 200
HEAD = "from opstep import layers\n\n\ndef helper(v, k):\n    if v.sum() > k:\n"
HEAD += "        return v - 1.0\n    return v * 0.5\n\n\n"


class Writer:
    """Writes a function over tensors x, y (floats), n (whole) and Python numbers i, j."""

    def __init__(self, seed: int) -> None:
        self._pick = random.Random(seed)
        self._lines: list[str] = []
        self._loops = 0

    def function(self, name: str) -> str:
        self._lines = [f"def {name}(x, y, n):", "    i, j = 1, 0"]
        self._block(1, depth=3, loop=False, size=4)
        self._lines.append("    return x, y, n, i, j")
        return "\n".join(self._lines) + "\n\n\n"

    def _add(self, level: int, line: str) -> None:
        self._lines.append("    " * level + line)

    def _whole(self) -> str:
        return self._pick.choice(["i", "j", "n", "i + 1", "(j + n)", "(i * 2 - n)", "3", "n % 3"])

    def _number(self) -> str:
        return self._pick.choice(["i", "j", "2", "(i + j)", "(i - 3)", "i % 4", "j // 2", "-j"])

    def _float(self) -> str:
        one = self._pick.choice(
            ["x", "y", "x * 0.5", "(y - x)", "x + i", "y * j", "layers.tanh(x)"]
        )
        return f"{one} {self._pick.choice('+-*')} {self._pick.choice(['x', 'y', '1.5', 'j'])}"

    def _test(self) -> str:
        kind = self._pick.randrange(9)
        if kind == 0:
            return f"{self._test()} and {self._test()}"
        if kind == 1:
            return f"{self._test()} or {self._test()}"
        if kind == 2:
            return f"not ({self._test()})"
        if kind == 3:
            return f"{self._whole()} < {self._whole()} <= {self._whole()}"
        if kind == 4:
            return f"{self._pick.choice('ij')} % 2 == {self._pick.randrange(2)}"
        if kind == 5:
            return f"float(x.sum()) > {self._number()}"
        sign = self._pick.choice(["<", ">", "<=", ">="])
        if kind == 6:
            return f"x.sum() {sign} y.mean()"
        return f"{self._whole()} {sign} {self._whole()}"

    def _block(self, level: int, depth: int, loop: bool, size: int) -> None:
        for _ in range(self._pick.randint(1, size)):
            self._statement(level, depth, loop)

    def _statement(self, level: int, depth: int, loop: bool) -> None:
        kind = self._pick.randrange(12 if depth else 5)
        if kind == 0:
            self._add(level, f"{self._pick.choice('xy')} = {self._float()}")
        elif kind == 1:
            self._add(level, f"{self._pick.choice('ij')} = ({self._number()}) % 7")
        elif kind == 2:
            self._add(level, f"n = (n + {self._number()}) % 5")
        elif kind == 3:
            self._add(level, f"y = {self._float()} if {self._test()} else {self._float()}")
        elif kind == 4:
            self._add(level, f"x = helper({self._float()}, {self._number()})")
        elif kind in (5, 6, 7):
            self._add(level, f"if {self._test()}:")
            self._block(level + 1, depth - 1, loop, 2)
            if self._pick.random() < 0.3:
                self._jump(level + 1, loop)
            if self._pick.random() < 0.5:
                self._add(level, "else:")
                self._block(level + 1, depth - 1, loop, 2)
                if self._pick.random() < 0.2:
                    self._jump(level + 1, loop)
        elif kind in (8, 9):
            self._while(level, depth)
        else:
            self._for(level, depth)

    def _jump(self, level: int, loop: bool) -> None:
        kinds = ["return y, x, n, j, i"] + ["break", "continue", "break"] * loop
        self._add(level, self._pick.choice(kinds))

    def _while(self, level: int, depth: int) -> None:
        self._loops += 1
        left = f"left_{self._loops}"
        self._add(level, f"{left} = {self._pick.choice(['3', 'n', 'n + 1'])}")
        test = f"{left} > 0" + (f" and ({self._test()})" if self._pick.random() < 0.5 else "")
        self._add(level, f"while {test}:")
        self._add(level + 1, f"{left} -= 1")
        self._block(level + 1, depth - 1, True, 2)
        if self._pick.random() < 0.2:
            self._add(level, "else:")
            self._block(level + 1, depth - 1, False, 1)

    def _for(self, level: int, depth: int) -> None:
        self._loops += 1
        item = f"item_{self._loops}"
        over = self._pick.choice(["range(n)", "range(3)", "range(1, n + 2, 2)", "x", "(0.5, 2.0)"])
        self._add(level, f"for {item} in {over}:")
        self._add(level + 1, f"y = y + {item}")
        self._block(level + 1, depth - 1, True, 2)
        if self._pick.random() < 0.2:
            self._add(level, "else:")
            self._block(level + 1, depth - 1, False, 1)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = Path(tmp_path_factory.mktemp("random")) / "random_functions.py"
    path.write_text(HEAD + "".join(Writer(n).function(f"f{n}") for n in range(FUNCTIONS)))
    spec = importlib.util.spec_from_file_location("random_functions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bits(values: Any) -> list[Any]:
    return [v.tobytes() if isinstance(v, np.ndarray) else float(v) for v in values]


def inputs(seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    x, y = draw.normal(size=(2, 2)).astype(np.float32)
    return [x, y, np.array(draw.integers(0, 5))]


def line_by_line(function: Callable[..., Any], arrays: list[np.ndarray]) -> Any:
    with imperative.guard():
        results = function(*map(imperative.to_variable, arrays))
    return [v.numpy() if isinstance(v, imperative.Value) else v for v in results]


@pytest.mark.parametrize("part", range(10))
def test_random_functions(functions: Any, part: int) -> None:
    for number in range(part, FUNCTIONS, 10):
        function = getattr(functions, f"f{number}")
        compiled = opstep.to_graph(function)
        for seed in range(2):
            arrays = inputs(100 * number + seed)
            wanted = line_by_line(function, arrays)
            assert bits(compiled(*arrays)) == bits(wanted), f"f{number} with seed {seed}"
