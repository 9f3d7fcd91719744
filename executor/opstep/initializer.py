"""How parameters get their first values: one op in the startup program for each."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from opstep import context, errors, ops, owners
from opstep._core import Error
from opstep.program import Program, file_path
from opstep.variable import Parameter, Variable

# Far apart, so that neighbouring random seeds do not share parameter seeds.
_SEED_STRIDE = 1_000_003

Shape = tuple[int | None, ...]


class Initializer:
    """Fills a variable of the startup program."""

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        """Append the op that makes the values; `where` names the op and its output."""
        raise NotImplementedError


class Constant(Initializer):
    """The same value everywhere."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        ops.fill(shape=shape, dtype=dtype, value=self.value, **where)


class Uniform(Initializer):
    """Equally likely anywhere in [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int | None = None) -> None:
        self.low, self.high, self.seed = low, high, seed

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        seed = seed if self.seed is None else self.seed
        ops.uniform(shape=shape, dtype=dtype, min=self.low, max=self.high, seed=seed, **where)


class Normal(Initializer):
    """The normal distribution."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, seed: int | None = None) -> None:
        self.mean, self.std, self.seed = mean, std, seed

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        seed = seed if self.seed is None else self.seed
        ops.normal(shape=shape, dtype=dtype, mean=self.mean, std=self.std, seed=seed, **where)


class Xavier(Initializer):
    """Keeps the variance of signals equal from layer to layer (Glorot and Bengio, 2010)."""

    def __init__(self, uniform: bool = True, seed: int | None = None) -> None:
        self.uniform, self.seed = uniform, seed

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        fan_in, fan_out = _fans(shape)
        if self.uniform:
            limit = math.sqrt(6.0 / (fan_in + fan_out))
            Uniform(-limit, limit, self.seed).fill(shape, dtype, seed, **where)
        else:
            std = math.sqrt(2.0 / (fan_in + fan_out))
            Normal(0.0, std, self.seed).fill(shape, dtype, seed, **where)


class MSRA(Initializer):
    """Keeps the variance of signals equal through layers with relu (He and others, 2015)."""

    def __init__(
        self, uniform: bool = True, fan_in: int | None = None, seed: int | None = None
    ) -> None:
        self.uniform, self.fan_in, self.seed = uniform, fan_in, seed

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        fan_in = self.fan_in or _fans(shape)[0]
        if self.uniform:
            limit = math.sqrt(6.0 / fan_in)
            Uniform(-limit, limit, self.seed).fill(shape, dtype, seed, **where)
        else:
            Normal(0.0, math.sqrt(2.0 / fan_in), self.seed).fill(shape, dtype, seed, **where)


class Assign(Initializer):
    """The values of an array."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        if self.value.shape != shape:
            raise Error(
                f"'{where['out'].name}' is {list(shape)} but the array to initialize it with is "
                f"{list(self.value.shape)}"
            )
        ops.constant(value=self.value.astype(dtype), **where)


class Load(Initializer):
    """The content of a file at the time when the startup program runs: a .npy file, or one tensor
    of a safetensors file, named by `key` when there are several."""

    def __init__(self, path: str | os.PathLike[str], key: str = "") -> None:
        self.path, self.key = file_path(path), key

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        ops.load(path=self.path, shape=shape, dtype=dtype, key=self.key, **where)


class AlreadyFilled(Initializer):
    """For a layer's parameter that the startup program already fills for another program."""

    def fill(self, shape: Shape, dtype: str, seed: int, **where: Any) -> None:
        pass


def _fans(shape: Shape) -> tuple[int, int]:
    """Sizes of [in, out], or of [out, in, *kernel] for convolutions."""
    sizes = [size or 1 for size in shape]
    if len(sizes) < 2:
        size = math.prod(sizes)
        return size, size
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    kernel = math.prod(sizes[2:])
    return sizes[1] * kernel, sizes[0] * kernel


def chosen(initializer: Initializer | float | None, default: Initializer) -> Initializer:
    """The user's initializer, where a number means a constant; or the default."""
    if initializer is None:
        return default
    if isinstance(initializer, int | float):
        return Constant(initializer)
    if not isinstance(initializer, Initializer):
        raise Error(f"an initializer is one of opstep.initializer or a number, not {initializer!r}")
    return initializer


def add_initializer(parameter: Parameter, initializer: Initializer | float | None) -> None:
    """Give the startup program the op that fills a new parameter."""
    made = chosen(initializer, Xavier())
    add_startup_value(parameter, made, next_seed(parameter.program))


def next_seed(program: Program) -> int:
    """A seed for the program's next random op."""
    program._seeds_given += 1
    return program.random_seed * _SEED_STRIDE + program._seeds_given


def add_startup_value(variable: Variable, initializer: Initializer, seed: int = 0) -> None:
    """Let the startup program fill a persistable variable."""
    startup = variable.program._startup or context.default_startup_program()
    if startup is variable.program:
        raise Error(
            f"'{variable.name}' cannot be initialized by the program that uses it: give "
            "program_guard two different programs"
        )
    shape, dtype = variable.shape, variable.dtype
    home = startup.global_block()
    owner = owners.owner_of(variable.program, variable.name)
    if home.has_var(variable.name) and not isinstance(initializer, AlreadyFilled):
        filled = home.var(variable.name)
        shared = owner == owners.NOBODY or (
            owners.is_apart(owner) and owner == owners.owner_of(startup, variable.name)
        )
        if shared and (filled.shape, filled.dtype) == (shape, dtype):
            return  # its name or its optimizer says that it is shared
        raise errors.error(
            f"program '{startup.name}' fills '{variable.name}' for another program already: give "
            f"program '{variable.program.name}' a startup program of its own, as in "
            "program_guard(main, startup), or make it by clone(); to share the value, give the "
            "layer the same name= in both"
        )
    target = home._create_var(variable.name, shape, dtype, persistable=True)
    owners.set_owner(startup, variable.name, owner)
    with context.program_guard(startup):
        initializer.fill(shape, dtype, seed, name=f"{variable.name}.init", out=target)
