#!/usr/bin/env bash
# pip.sh TITLE ARGS...: pip of .venv; its output is shown only if it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
exec tools/progress.sh "$1" .venv/bin/python -m pip --disable-pip-version-check "${@:2}"
