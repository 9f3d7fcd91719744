"""Owners of the values in scopes: programs share a value only where the user says so.

An owner is a number. Programs of one model have the same one: a program and the startup program
that `program_guard` names with it, its clones and its parts. A parameter of an imperative layer
belongs to its layer, in whatever program. 0 is nobody: a name that the user gave, and all names of
a program that was read from a file. A scope knows the owner of each value; a run that finds the
value of another owner ends before its first op (`Frame::BindScope`). See docs/decisions/0008.
"""

from __future__ import annotations

import gc
import itertools
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from opstep._core import Error

if TYPE_CHECKING:
    from opstep.executor import Scope
    from opstep.program import Program

NOBODY = 0

_numbers = itertools.count(1)
_lock = threading.RLock()
# The programs and layers that can still use the values of an owner.
_members: dict[int, WeakSet[Any]] = {}
# Owners that became one with another.
_joined: dict[int, int] = {}
_of_objects: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def new_owner(member: Any) -> int:
    """An owner that lives as long as `member`."""
    with _lock:
        number = next(_numbers)
        _members[number] = WeakSet([member])
        return number


def owner_of_object(thing: Any) -> int:
    """The owner that stands for a layer, or for a value that several layers have."""
    with _lock:
        if thing not in _of_objects:
            _of_objects[thing] = new_owner(thing)
        return _of_objects[thing]


def enter(program: Program, owner: int) -> None:
    """The program uses the values of that owner."""
    with _lock:
        owner = _root(owner)
        program._owner = owner
        program._core.set_owner(owner)
        if owner != NOBODY:
            _members.setdefault(owner, WeakSet()).add(program)


def join(first: Program, second: Program) -> None:
    """From now on both use the same values."""
    with _lock:
        one, other = _root(first._owner), _root(second._owner)
        if one == other:
            return
        if one == NOBODY or other == NOBODY:
            for program in (first, second):
                enter(program, one or other)
            return
        _joined[other] = one
        for member in _members.pop(other, ()):
            if hasattr(member, "_serial"):
                enter(member, one)
            else:
                _members[one].add(member)


def owner_of(program: Program, name: str) -> int:
    """The owner of a persistable variable."""
    return _root(program._owners.get(name, program._owner))


def set_owner(program: Program, name: str, owner: int) -> None:
    """One of the program's variables has another owner than the program."""
    if program._owners.get(name, program._owner) != owner:
        program._owners[name] = owner
        program._core.set_owner_of(name, owner)


def copy_owners(source: Program, part: Program) -> None:
    """For a copy of the program, or of a part of it."""
    enter(part, source._owner)
    for name, owner in source._owners.items():
        set_owner(part, name, owner)


def check_shared(program: Program, added: Program) -> None:
    """Checks that a name that both programs have means the same value in both."""
    # Flags of first values must differ, which is checked elsewhere.
    mine = set(_persistables(program)) - set(program._core.once_flags())
    for name in _persistables(added):
        if name in mine and not same(owner_of(added, name), owner_of(program, name)):
            raise Error(
                f"programs '{program.name}'{line_of(program)} and '{added.name}'{line_of(added)} "
                f"each have their own '{name}': build one of them inside opstep.name_scope; to "
                "share it, give the layer the same name= in both"
            )


def adopt(program: Program, added: Program) -> None:
    """The ops of `added` come into the program: its variables keep their owners."""
    for name in _persistables(added):
        set_owner(program, name, owner_of(added, name))


def same(one: int, other: int) -> bool:
    """Values that belong to nobody can be used by all."""
    return one == other or NOBODY in (one, other)


def _root(owner: int) -> int:
    while owner in _joined:
        owner = _joined[owner]
    return owner


# --- values of a scope ---------------------------------------------------------------------------


def settle(program: Program, scope: Scope) -> None:
    """A run found the value of another owner: give the program the values that nobody else can use
    any more, or report the owner."""
    with _lock:
        for name in _persistables(program):
            wanted = program._owners.get(name, program._owner)
            if _root(wanted) != wanted:
                set_owner(program, name, _root(wanted))
            check(program, name, scope)


def claim(program: Program, scope: Scope, names: Any) -> None:
    """Values of these names were put, or are about to be put, into the scope for the program."""
    for name in names:
        check(program, name, scope)
    for name in names:
        scope._core.set_owner(name, owner_of(program, name))


def check(program: Program, name: str, scope: Scope, file: str | None = None) -> None:
    """Checks that the program may use the scope's value of that name, or fill it from a file."""
    if may_use(program, name, scope):
        return
    whose = _whose(_root(scope._core.owner(name)))
    if file is not None:
        raise Error(
            f"cannot load '{file}': '{name}' in this scope belongs to {whose}, whose value would "
            "be replaced: load into another scope (scope=opstep.Scope())"
        ) from None
    raise Error(
        f"'{name}' in this scope belongs to {whose}, and program '{program.name}'"
        f"{line_of(program)} was built apart from it: run it in another scope "
        "(scope=opstep.Scope()) or build it inside opstep.name_scope; to share values, use clone() "
        "or the same name= for the layer"
    ) from None


def may_use(program: Program, name: str, scope: Scope) -> bool:
    """The same check, as a bool."""
    wanted, found = owner_of(program, name), scope._core.owner(name)
    if same(wanted, found):
        return True
    if _root(found) == wanted:
        scope._core.hand_over(found, wanted)
    elif not _living(_root(found)):
        scope._core.hand_over(found, NOBODY)
    else:
        return False
    return True


def _living(owner: int) -> list[Any]:
    """The programs and layers that can still use the values of that owner."""
    if _members.get(owner):
        gc.collect()  # a program and its blocks know each other
    return list(_members.get(owner, ()))


def _whose(owner: int) -> str:
    programs = [each for each in _living(owner) if hasattr(each, "_serial")]
    if not programs:
        return "another layer"
    first = min(programs, key=lambda each: each._serial)
    return f"program '{first.name}'{line_of(first)}"


def line_of(program: Program) -> str:
    """` (train.py:41)`, where its first op was made."""
    for block in program.blocks:
        for op in block.ops:
            if op.stack:
                return f" ({op.stack[0].file.rsplit('/', 1)[-1]}:{op.stack[0].line})"
    return ""


def _persistables(program: Program) -> list[str]:
    return [name for block in program.blocks for name, v in block.vars.items() if v.persistable]
