"""The program that is being built: defaults, `program_guard` and `name_scope`, per thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opstep import _core, owners

if TYPE_CHECKING:
    from opstep.convert.trace import Trace
    from opstep.imperative.layer import Layer
    from opstep.program import Program


class _Context(threading.local, _core.Mode):
    # `imperative` and `names` are those of _core.Mode, which is per thread too.
    main: Program | None = None
    startup: Program | None = None
    # The innermost Layer whose forward runs: it keeps the parameters that layers ask for.
    layer: Layer | None = None
    # How often it has called each layer function without a name.
    counts: dict[str, int] = {}  # noqa: RUF012
    # The program that it adds to.
    building: Program | None = None
    # Does the __init__ of a Layer run?
    making_layer: bool = False
    # Set while a converted function is turned into ops.
    trace: Trace | None = None


_context = _Context()
_defaults: dict[str, Program] = {}
_lock = threading.Lock()


def _default(name: str) -> Program:
    from opstep.program import Program

    with _lock:
        if name not in _defaults:
            _defaults[name] = Program(name)
        return _defaults[name]


def imperative() -> bool:
    """Do ops run at once?"""
    return _context.imperative


def current_layer() -> Layer | None:
    """The innermost Layer whose forward runs."""
    return _context.layer


def making_layer() -> bool:
    """Does the `__init__` of a Layer run?"""
    return _context.making_layer


def default_main_program() -> Program:
    """The program that layers are added to now."""
    return _default("main") if _context.main is None else _context.main


def guarded_program() -> Program | None:
    """The program of the innermost `program_guard`."""
    return _context.main


def default_startup_program() -> Program:
    """The program that gets the initializers of parameters made now."""
    return _default("startup") if _context.startup is None else _context.startup


class program_guard:
    """Inside the `with`, layers go to `main` and initializers to `startup`, even in imperative
    mode."""

    def __init__(self, main: Program, startup: Program | None = None) -> None:
        for program in (main, startup):
            if program is not None and not hasattr(program, "_core"):
                raise _core.Error(f"program_guard takes programs, not a {type(program).__name__}")
        self.main, self.startup = main, startup

    def __enter__(self) -> None:
        self._before = _context.main, _context.startup, _context.imperative
        _context.main, _context.imperative = self.main, False
        if self.startup is not None:
            _context.startup = self.startup
            if self.main._startup is not self.startup:
                self.main._startup = self.startup
                owners.join(self.main, self.startup)

    def __exit__(self, *_: object) -> None:
        _context.main, _context.startup, _context.imperative = self._before


@contextmanager
def name_scope(prefix: str) -> Iterator[None]:
    """Names made inside the `with` start with `prefix/`."""
    before = _context.names
    _context.names = f"{before}{prefix}/"
    try:
        yield
    finally:
        _context.names = before


@contextmanager
def names_below(name: str) -> Iterator[None]:
    """Names made inside the `with` start with `name/`, which already includes its name scopes."""
    before = _context.names
    _context.names = f"{name}/"
    try:
        yield
    finally:
        _context.names = before


def scoped(name: str) -> str:
    """The name with the name scopes around it."""
    return _context.names + name
