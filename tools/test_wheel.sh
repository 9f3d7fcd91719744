#!/usr/bin/env bash
# test_wheel.sh VERSION PYTEST-ARGS...: run tests with the wheels that `make wheel` tried on that Python.
set -euo pipefail
cd "$(dirname "$0")/.."
python=build/wheels/try/$1/venv/bin/python
[[ -x $python ]] || { echo "there is no $python: run make wheel PYTHONS=$1 first" >&2; exit 1; }
tools/progress.sh "Installing the Python packages for test ($1)" \
  "$python" -m pip --disable-pip-version-check install -r <(.venv/bin/python tools/requirements.py test)
echo "Python $1"
"$python" -m pytest -q "${@:2}"
