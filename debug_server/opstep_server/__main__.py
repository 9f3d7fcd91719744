"""`python -m opstep_server dap` and the like: the same as the command `opstep`."""

import sys

from opstep_server.cli.main import main

sys.exit(main())
