#!/usr/bin/env bash
# check_only.sh COMPILER ARGS...: a compiler launcher that only checks a file; its object file stays empty.
set -euo pipefail
"$@" -fsyntax-only
while [[ $1 != -o ]]; do shift; done
: >"$2"
