"""The adapter as one file, which is how Microsoft's test client starts one."""

import runpy
import sys

sys.argv = ["opstep", "dap"]
runpy.run_module("opstep_server", run_name="__main__", alter_sys=True)
