"""The setting of one test: two programs under construction, a scope and an executor."""

from __future__ import annotations

from dataclasses import dataclass

import opstep


@dataclass
class World:
    main: opstep.Program
    startup: opstep.Program
    scope: opstep.Scope
    exe: opstep.Executor
