#!/usr/bin/env bash
# Train the digits model, then find a NaN with the debugger in batch mode.
set -euo pipefail
cd "$(dirname "$0")/.."

# Show a command as a user would type it, then run it from .venv.
show() {
  printf '\n$ %s\n' "$(printf ' %q' "$@" | cut -c2-)"
  ".venv/bin/$@"
}

show python examples/digits_mlp.py
show opstep debug --batch -ex "catch nan" -ex run -ex where -ex "info inputs" -ex "info outputs" \
  examples/find_the_nan.py
