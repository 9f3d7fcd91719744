#!/usr/bin/env bash
# Train the digits model, then find a NaN with the debugger in batch mode.
set -euo pipefail
cd "$(dirname "$0")/.."

# Show a command as a user would type it, then run it from .venv.
show() {
  printf '\n$'
  for word in "$@"; do
    if [[ $word == *[!A-Za-z0-9_./-]* ]]; then printf ' "%s"' "$word"; else printf ' %s' "$word"; fi
  done
  printf '\n'
  ".venv/bin/$1" "${@:2}"
}

show python examples/digits_mlp.py
# A batch session that ends at a NaN exits with 1: anything else means that it was not found.
status=0
show opstep debug --batch -ex "catch nan" -ex run -ex where -ex inputs examples/find_the_nan.py \
  || status=$?
[[ $status -eq 1 ]] || { echo "demo: no NaN was found (exit status $status)" >&2; exit 1; }

cat <<'TEXT'

That was the debugger in batch mode. Try it yourself:

  source .venv/bin/activate
  opstep debug examples/find_the_nan.py     # type: catch nan, run, where, inputs, help
  opstep debug --tui examples/digits_mlp.py # a full screen: type break matmul, run, next
  make vsix                                 # the extension for VS Code: docs/vscode.md
TEXT
