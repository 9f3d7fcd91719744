"""Runs a script with another build of the extension: with_core.py CORE SCRIPT [args]."""

from __future__ import annotations

import importlib.util
import runpy
import sys

core, script = sys.argv[1:3]
found = importlib.util.spec_from_file_location("opstep._core", core)
assert found is not None and found.loader is not None
module = importlib.util.module_from_spec(found)
# Before the package, which takes it from here.
sys.modules["opstep._core"] = module
found.loader.exec_module(module)
sys.argv = sys.argv[2:]
runpy.run_path(script, run_name="__main__")
