"""Every test builds its own programs and keeps its values in a scope of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import opstep


@dataclass
class World:
    main: opstep.Program
    startup: opstep.Program
    scope: opstep.Scope
    exe: opstep.Executor


@pytest.fixture
def world() -> Iterator[World]:
    main, startup = opstep.Program("main"), opstep.Program("startup")
    scope = opstep.Scope()
    with opstep.program_guard(main, startup), opstep.scope_guard(scope):
        yield World(main, startup, scope, opstep.Executor())
