"""Running programs: `Executor`, `compile` and the scopes that keep values between runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from opstep import _core, context, owners, ragged
from opstep._core import Error
from opstep.debug import connection
from opstep.errors import error
from opstep.operators import Operators
from opstep.origins import name_in, names_in
from opstep.program import Program
from opstep.variable import Variable


class Scope:
    """Values that outlast a run, by name: parameters and other persistable variables."""

    def __init__(self) -> None:
        self._core = _core.Scope()

    def find(self, name: str | Variable) -> np.ndarray:
        """A copy of the value."""
        return self._core.copy(self._name(name))

    def view(self, name: str | Variable) -> np.ndarray:
        """The value itself: writing to it changes what the next run sees."""
        return self._core.view(self._name(name))

    def set(self, name: str | Variable, value: Any) -> None:
        """Replace the value with a copy of `value`."""
        self._core.set(self._name(name), np.asarray(value))

    def erase(self, name: str | Variable) -> bool:
        """Forget the value; returns whether there was one."""
        return self._core.erase(self._name(name))

    def names(self) -> list[str]:
        """The names of all values, sorted."""
        return sorted(self._core.names())

    def __contains__(self, name: str | Variable) -> bool:
        if isinstance(name, Variable) and not owners.may_use(name.program, name.name, self):
            return False  # another program's
        return self._core.has(_key(name, self))

    def _name(self, item: str | Variable) -> str:
        """The name of a value here; that of a variable must be its program's."""
        if isinstance(item, Variable):
            owners.check(item.program, item.name, self)
        return _key(item, self)


class _Current(threading.local):
    scope: Scope | None = None


_global = Scope()
_current = _Current()


def global_scope() -> Scope:
    """The scope that runs use when they are given none."""
    return _global if _current.scope is None else _current.scope


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Inside the `with`, runs of this thread use `scope`."""
    before = _current.scope
    _current.scope = scope
    try:
        yield
    finally:
        _current.scope = before


def scope_for(program: Program, given: Scope | None) -> Scope:
    """The scope that a program is run in, given one or none."""
    return (program._scope or global_scope()) if given is None else given


class Executor:
    """Compiles programs and runs them. The compiled plans are kept."""

    def __init__(self, place: str = "cpu") -> None:
        if place != "cpu":
            raise Error(f"there is no place '{place}'; opstep runs on 'cpu'")
        self._core = _core.Executor()
        connection._open_doorbell()

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str | Variable, Any] | None = None,
        fetch_list: str | Variable | Sequence[str | Variable] | None = None,
        scope: Scope | None = None,
    ) -> list[Any]:
        """Run the program once; returns the values of `fetch_list`: a `Ragged` for a ragged
        variable, an array for any other."""
        program = _default() if program is None else _checked(program, "exe.run")
        arrays: dict[str, np.ndarray] = {}
        for key, value in (feed or {}).items():
            name = key if type(key) is str else name_in(program, key, "cannot feed")
            if type(value) is np.ndarray:
                arrays[name] = value
            else:
                arrays |= _arrays(program, name, value)
        wanted = () if fetch_list is None else fetch_list
        fetches = ragged.Fetches(program, names_in(program, wanted, "cannot fetch"))
        scope = scope_for(program, scope)
        try:
            fetched = self._core.run(program._core, arrays, fetches.names, scope._core)
        except _core.ForeignValue:
            owners.settle(program, scope)
            fetched = self._core.run(program._core, arrays, fetches.names, scope._core)
        except Error:
            ragged.check_fed(program, arrays)
            raise
        return fetches.values(fetched)


def _checked(program: Any, what: str) -> Program:
    if isinstance(program, Program):
        return program
    many = program if isinstance(program, list | tuple) else [program]
    variables = [each.name for each in many if isinstance(each, Variable)]
    if variables and len(variables) == len(many):
        name = ", ".join(f"'{each}'" for each in variables)
        are = "is a variable" if len(variables) == 1 else "are variables"
        raise error(
            f"{what} takes a program first, and {name} {are}: write "
            f"exe.run(program, feed=..., fetch_list=[{name}])"
        )
    raise error(f"{what} takes a program first, not a {type(program).__name__}")


def _default() -> Program:
    program = context.default_main_program()
    if not program.global_block().ops:
        raise Error(
            "no program was given and the default program has no ops: "
            "name the one to run, as in exe.run(main, feed=...)"
        )
    return program


class CompiledProgram:
    """A program as a function: `step(x=images, label=labels)` or `step({"x": images, ...})`."""

    def __init__(
        self, program: Program, feeds: Sequence[str], fetches: Sequence[str], scope: Scope
    ) -> None:
        self.program = program
        self.feeds = tuple(feeds)
        self.fetches = tuple(fetches)
        self._scope = scope
        self._fetches = ragged.Fetches(program, list(fetches))
        # Ragged feeds whose companions are not fed on their own.
        self._ragged = {
            name
            for name, offsets in program._core.offsets_of(list(feeds)).items()
            if not set(offsets) & set(feeds)
        }
        names = [name for feed in feeds for name in self._fed(feed)]
        self._core = _core.Callable(program._core, names, self._fetches.names, scope._core)
        connection._open_doorbell()

    def _fed(self, name: str) -> list[str]:
        """The feed, and the companions of a ragged one in the order of `ragged.feeds`."""
        if name not in self._ragged:
            return [name]
        return [name, *(each for level in self.program._core.lod(0, name) for each in level)]

    def __call__(self, *args: Any, **feeds: Any) -> list[Any]:
        if args:
            feeds = self._from_positions(args, feeds)
        names = self.feeds
        if len(feeds) != len(names):
            self._complain(feeds)
        arrays = []
        for name in names:
            try:
                value = feeds[name]
            except KeyError:
                self._complain(feeds)
            if name in self._ragged:
                arrays += ragged.feeds(self.program, name, value).values()
                continue
            if type(value) is not np.ndarray:
                value = _array(self.program, name, value)
            arrays.append(value)
        try:
            return self._fetches.values(self._core(arrays))
        except _core.ForeignValue:
            owners.settle(self.program, self._scope)
            return self._fetches.values(self._core(arrays))

    def _from_positions(self, args: tuple[Any, ...], feeds: dict[str, Any]) -> dict[str, Any]:
        """A dict of feeds, or the values in the order of the feeds."""
        if len(args) == 1 and isinstance(args[0], Mapping):
            given = {
                name_in(self.program, key, "cannot feed"): value for key, value in args[0].items()
            }
        elif len(args) <= len(self.feeds):
            given = dict(zip(self.feeds, args, strict=False))
        else:
            raise Error(f"{len(args)} values for {len(self.feeds)} feeds: {', '.join(self.feeds)}")
        return given | feeds

    def _complain(self, feeds: Mapping[str, Any]) -> None:
        for name in feeds:
            if name not in self.feeds:
                near = _core.nearest(name, list(self.feeds))
                hint = f"; did you mean '{near}'?" if near else ""
                raise Error(f"the program was not compiled to be fed '{name}'{hint}")
        missing = ", ".join(f"'{name}'" for name in self.feeds if name not in feeds)
        raise Error(f"the program was compiled to be fed {missing} too: give a value")


def compile(
    program: Program | None = None,
    feeds: Sequence[str | Variable] = (),
    fetches: Sequence[str | Variable] = (),
    scope: Scope | None = None,
) -> CompiledProgram:
    """The program as a function of its feeds, for loops in which every microsecond counts."""
    program = _default() if program is None else _checked(program, "opstep.compile")
    feed_names = names_in(program, feeds, "cannot feed")
    fetch_names = names_in(program, fetches, "cannot fetch")
    block = program.global_block()
    for what, names in (("cannot feed", feed_names), ("cannot fetch", fetch_names)):
        for name in names:
            if block.has_var(name):
                continue
            near = _core.nearest(name, list(block.vars))
            hint = f"; did you mean '{near}'?" if near else ""
            raise Error(f"{what} '{name}': program '{program.name}' has no such variable{hint}")
    scope = scope_for(program, scope)
    return CompiledProgram(program, feed_names, fetch_names, scope)


def _key(item: str | Variable, scope: Scope) -> str:
    """Where the scope has the value."""
    name = _name(item)
    return owners.key(item.program, name, scope) if isinstance(item, Variable) else name


def _name(item: str | Variable) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Variable):
        return item.name
    if isinstance(item, Operators):
        raise error("a program has no runtime values: name its variables to be fed or fetched")
    raise error(f"expected a variable or its name, not a {type(item).__name__}")


def _arrays(program: Program, name: str, value: Any) -> dict[str, np.ndarray]:
    """The arrays to feed for a variable, with the companions of a ragged one."""
    if program._core.offsets_of([name]):
        return ragged.feeds(program, name, value)
    return {name: _array(program, name, value)}


def _array(program: Program, name: str, value: Any) -> np.ndarray:
    """Lists and numbers in the dtype that the variable was declared with; arrays as they are."""
    if isinstance(value, ragged.Ragged):
        raise Error(
            f"cannot feed '{name}': the value has sequences of different lengths, but the variable "
            "has not; declare it with lod_level=1"
        )
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray | Operators):
        return _from_dlpack(name, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise Error(f"cannot feed '{name}': the rows of the list differ in length") from None
    if _has_dtype(value) or program._core.block_of_var(0, name) != 0:
        return array
    declared = program._core.dtype(0, name)
    try:
        # NumPy has no kind for bfloat16.
        kind_of = "float16" if declared == "bfloat16" else declared
        if array.size and not np.can_cast(array.dtype, kind_of, "same_kind"):
            raise TypeError
        return np.asarray(value, dtype=_core.numpy_dtype(declared))
    except (TypeError, ValueError, OverflowError):
        kind = f"values of {array.dtype}" if array.dtype != object else "values of mixed dtypes"
        raise Error(f"cannot feed '{name}': it is {declared}, but the list has {kind}") from None


def _has_dtype(value: Any) -> bool:
    if hasattr(value, "dtype") or hasattr(value, "__array__"):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _from_dlpack(name: str, value: Any) -> np.ndarray:
    """The memory of another library's tensor, without a copy."""
    try:
        return np.from_dlpack(value)
    except Exception as error:
        reason = str(error).rstrip(".")
        raise Error(
            f"cannot feed '{name}': NumPy cannot look into this {type(value).__name__} ({reason})"
        ) from None
