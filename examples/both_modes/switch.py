"""The switch between the two modes, which the examples beside this file share.

A function that is written once, with layers, operators and optimizers, becomes a function of
arrays. With `--imperative` on the command line each call runs it line by line. Without, the first
call runs it once with variables instead of values: its ops become a program, which is compiled and
runs in every call. Both give the same bits.
"""

import sys

import opstep
from opstep import imperative, layers


def both_modes(function):
    """For `@both_modes`; gives a function that takes arrays by name."""
    return LineByLine(function) if "--imperative" in sys.argv else Compiled(function)


class LineByLine:
    def __init__(self, function):
        self.function = function

    def __call__(self, **arrays):
        with imperative.guard():
            values = {name: imperative.to_variable(array) for name, array in arrays.items()}
            result = self.function(**values)
        return tuple(v.numpy() for v in result) if isinstance(result, tuple) else result.numpy()


class Compiled:
    def __init__(self, function):
        self.function, self.step = function, None

    def __call__(self, **arrays):
        if self.step is None:
            self.step = self.build(arrays)
        result = self.step(**arrays)
        return tuple(result) if self.many else result[0]

    def build(self, arrays):
        """Its program; batches may have any number of rows."""
        self.main, startup = opstep.Program(self.function.__name__), opstep.Program("startup")
        with opstep.program_guard(self.main, startup):
            fed = {
                name: layers.data(name, [None, *array.shape[1:]], dtype=array.dtype)
                for name, array in arrays.items()
            }
            result = self.function(**fed)
        kept = [v for v in self.main.global_block().vars.values() if v.persistable]
        if any(v not in opstep.global_scope() for v in kept):  # else another function has run
            opstep.Executor().run(startup)
        self.many = isinstance(result, tuple)
        return opstep.compile(self.main, list(fed), list(result) if self.many else [result])
