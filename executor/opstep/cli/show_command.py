"""`opstep show`: listings and pictures. Nothing is run."""

from __future__ import annotations

import math
import os
import sys

import numpy as np

from opstep import _core
from opstep._core import Error
from opstep.model import model_without_values
from opstep.program import Program, file_path
from opstep.variable import type_text


def show(path: str, as_dot: bool) -> None:
    """Print what is in a file or a model's directory."""
    if path.endswith(".py"):
        raise Error(
            f"'{path}' is a script, and show runs nothing: save a program in it with "
            "opstep.default_main_program().save('main.opstep') and show that file"
        )
    if path.endswith((".safetensors", ".npy")) and not as_dot:
        sys.stdout.write(tensors(path))
        return
    fetches: list[str] = []
    head = ""
    if os.path.isdir(path):
        program, feeds, fetches = model_without_values(path)
        head = _model(program, feeds, fetches)
    else:
        program = Program.load(path)
    if as_dot:
        from opstep.show.dot import dot

        sys.stdout.write(dot(program, fetches))
    else:
        sys.stdout.write(head + str(program).rstrip("\n") + "\n")


def tensors(path: str) -> str:
    """The tensors of a file, one a line."""
    if path.endswith(".npy"):
        array = _core.read_array(file_path(path))
        return f"{array.dtype}{list(array.shape)}\n"
    types = _core.read_types(file_path(path))
    width = max((len(name) for name in types), default=0)
    return "".join(
        f"{name:{width}}  {dtype}{shape}\n" for name, (dtype, shape) in sorted(types.items())
    )


def _model(program: Program, feeds: list[str], fetches: list[str]) -> str:
    block = program.global_block()

    def described(names: list[str]) -> str:
        return ", ".join(f"{name} {type_text(block.var(name))}" for name in names) or "nothing"

    kept = [name for name, variable in block.vars.items() if variable.persistable]
    numbers = sum(math.prod(size or 0 for size in block.var(name).shape) for name in kept)
    return (
        f"feeds:      {described(feeds)}\n"
        f"fetches:    {described(fetches)}\n"
        f"parameters: {numbers:,} numbers in {len(kept)} tensors\n\n"
    )


def value(name: str, array: np.ndarray) -> str:
    """A fetched value as people like to see it."""
    text = np.array2string(array, threshold=200, edgeitems=3, max_line_width=100)
    gap = "\n" if "\n" in text else " "
    return f"{name} {array.dtype}{list(array.shape)} ={gap}{text}\n"
