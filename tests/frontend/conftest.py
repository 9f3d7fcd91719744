"""Every test builds its own programs and keeps its values in its own scope."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import opstep
from harness.world import World


@pytest.fixture
def world() -> Iterator[World]:
    main, startup = opstep.Program("main"), opstep.Program("startup")
    scope = opstep.Scope()
    with opstep.program_guard(main, startup), opstep.scope_guard(scope):
        yield World(main, startup, scope, opstep.Executor())
