#!/usr/bin/env bash
# pip of .venv, quiet unless it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
log=$(mktemp build/pip-XXXXXX.log)
if .venv/bin/python -m pip --disable-pip-version-check "$@" >"$log" 2>&1; then
  rm -f "$log"
else
  cat "$log" >&2
  echo "pip $* failed; the log is $log" >&2
  exit 1
fi
