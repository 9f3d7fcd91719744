"""mlp.py in a process that may only be observed."""

import os
import runpy
from pathlib import Path

os.environ["OPSTEP_POLICY"] = "observe"
runpy.run_path(str(Path(__file__).with_name("mlp.py")))
