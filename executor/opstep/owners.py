"""Owners of the values in scopes: programs share a value only where the user says so.

An owner is a number. Programs of one model have the same one: a program and the startup program
that `program_guard` names with it, its clones and its parts. A parameter of an imperative layer
belongs to its layer, in whatever program. 0 is nobody: a name that the user gave, and all names of
a program that was read from a file. A scope knows the owner of each value; a run that finds the
value of another owner ends before its first op (`Frame::BindScope`). See docs/decisions/0008.

Names that the user did not choose, such as those of an optimizer's state, have owners that are kept
apart: in a scope where the name is another owner's, the value is under the key `name@2`.
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
# The programs that use a value of an owner other than their own.
_users: dict[int, WeakSet[Program]] = {}
# Owners whose values get a key of their own where the name is taken.
_apart: set[int] = set()
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


def new_owner_apart() -> int:
    """An owner of values that never collide with those of others; it lives as long as the programs
    that have variables of it."""
    with _lock:
        number = next(_numbers)
        _apart.add(number)
        return number


def keep_apart(program: Program, name: str) -> None:
    """The program's variable never collides with that of another program."""
    if program._owner != NOBODY:
        set_owner(program, name, new_owner_apart())


def is_apart(owner: int) -> bool:
    return owner in _apart


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
        if owner != NOBODY:
            _users.setdefault(owner, WeakSet()).add(program)


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
        if name not in mine or same(owner_of(added, name), owner_of(program, name)):
            continue
        if is_apart(owner_of(added, name)) and is_apart(owner_of(program, name)):
            raise Error(
                f"'{name}' of program '{program.name}'{line_of(program)} and that of "
                f"'{added.name}'{line_of(added)} belong to two optimizers: train both with the "
                "same optimizer object, or run the programs one after the other"
            )
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
        scope._core.set_owner(key(program, name, scope), owner_of(program, name))


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
        f"(scope=opstep.Scope()) or make '{name}' inside opstep.name_scope; to share values, use "
        "clone() or the same name= for the layer"
    ) from None


def may_use(program: Program, name: str, scope: Scope) -> bool:
    """The same check, as a bool."""
    with _lock:
        wanted = owner_of(program, name)
        found = scope._core.owner(scope._core.key(name, wanted))
        if _may_use(wanted, found, scope):
            return True
        users = _users.get(found, ())
        if is_apart(found) and any(_root(each._owner) == wanted for each in users):
            set_owner(program, name, found)  # another program of the model has made it
            return True
        if not is_apart(wanted) and name not in program._core.once_flags():
            return False
        for owner in scope._core.apart(name):
            if not _living(_root(owner)):
                scope._core.hand_over(owner, NOBODY)  # which forgets its value
        scope._core.set_apart(name, wanted)
        return True


def _may_use(wanted: int, found: int, scope: Scope) -> bool:
    if same(wanted, found):
        return True
    if _root(found) == wanted:
        scope._core.hand_over(found, wanted)
    elif not _living(_root(found)):
        scope._core.hand_over(found, NOBODY)
    else:
        return False
    return True


def key(program: Program, name: str, scope: Scope) -> str:
    """Where the scope has the program's value, which the program may use."""
    return scope._core.key(name, owner_of(program, name))


def _living(owner: int) -> list[Any]:
    """The programs and layers that can still use the values of that owner."""
    if _members.get(owner) or _users.get(owner):
        gc.collect()  # a program and its blocks know each other
    return [*_members.get(owner, ()), *_users.get(owner, ())]


def _whose(owner: int) -> str:
    living = _living(owner)
    members = _members.get(owner, ())
    programs = [each for each in members or living if hasattr(each, "_serial")]
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
