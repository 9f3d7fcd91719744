"""One program from two: `merge` a startup program into the one that it is for, `chain` two."""

from __future__ import annotations

from collections.abc import Mapping

from opstep import origins, owners
from opstep._core import Error
from opstep.origins import name_in
from opstep.program import Program
from opstep.variable import Variable


def merge(startup: Program, main: Program, name: str | None = None) -> Program:
    """A program that does what `main` does, and in its first run in a scope what `startup` does
    before it: the same results as running one after the other, from a single file.

    Ops of `main` keep ids, names and blocks. Persistable variables are shared by name. The scope's
    value `<name of startup>.done` says that the first values are there; set it to False to have
    them filled again. A first run that fails leaves none of them behind.
    """
    _check("merge", startup, main)
    if startup is main:
        raise Error(f"program '{main.name}' cannot be merged with itself: give its startup program")
    merged = main._part(main._core.merged(startup._core, name or f"{main.name}_merged"))
    merged._startup = startup
    owners.join(merged, startup)
    return merged


def chain(
    first: Program,
    second: Program,
    connect: Mapping[str | Variable, str | Variable] | None = None,
    name: str | None = None,
) -> Program:
    """A program that does what `first` does and then what `second` does.

    `connect` says which feed of `second` takes which variable of `first`: `connect={x: hidden}`.
    Feeds and persistable variables of one name are one variable. Other variables and ops of
    `second` get a new name if `first` has one of that name: `fc_0.out_1`.
    """
    _check("chain", first, second)
    names = {
        name_in(second, feed, "cannot connect"): name_in(first, value, "cannot connect")
        for feed, value in (connect or {}).items()
    }
    return joined(first, second, names, False, name or f"{first.name}+{second.name}")


def joined(
    first: Program, second: Program, connect: Mapping[str, str], share: bool, name: str
) -> Program:
    """With `share`, values that both have under one name must be the same and exist once."""
    owners.check_shared(first, second)
    made = first._part(first._core.joined(second._core, connect, share, name))
    owners.adopt(made, second)
    origins.added(made, first, second)
    made._seeds_given = max(first._seeds_given, second._seeds_given)
    made._readers += second._readers
    return made


def _check(what: str, *programs: Program) -> None:
    for program in programs:
        if not isinstance(program, Program):
            raise Error(f"{what} takes programs, not a {type(program).__name__}")
