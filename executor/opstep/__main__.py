"""`python -m opstep run …` and `… show …`: what the command `opstep` starts for these."""

import sys

from opstep.cli.main import main

sys.exit(main())
