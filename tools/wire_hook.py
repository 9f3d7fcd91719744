"""Hatchling's hook for opstep-server: the wheel gets the package opstep_server.wire, made anew."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOOLS = Path(__file__).parent
PROTOS = TOOLS.parent / "proto"


class WireHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install takes the one beside the sources, of tools/install.sh.
        if version == "editable":
            return
        sys.path.insert(0, str(TOOLS))
        from generate_wire import generate

        self._folder = Path(tempfile.mkdtemp())
        generate(sorted(PROTOS.glob("*.proto")), self._folder)
        build_data["force_include"][str(self._folder)] = "opstep_server/wire"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._folder)
