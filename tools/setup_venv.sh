#!/usr/bin/env bash
# Make .venv and put the build requirements of pyproject.toml into it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" - <<'PY'
import os, sys, sysconfig
if sys.version_info < (3, 10):
    sys.exit(f"opstep needs Python 3.10 or newer, but {sys.executable} is {sys.version.split()[0]}: "
             "set PYTHON=/path/to/python3 for make.")
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
if not os.path.exists(header):
    sys.exit(f"The headers of {sys.executable} are missing ({header}): install python3-dev, "
             "or set PYTHON for make.")
PY

[[ -x .venv/bin/python ]] || tools/progress.sh "Making .venv" "$python" -m venv .venv
mkdir -p build
.venv/bin/python tools/requirements.py build >build/requirements.txt
tools/pip.sh "Installing the Python packages of the build" install -r build/requirements.txt
