#!/usr/bin/env bash
# Build the extension and install the packages editable into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

# Two builds at once would write the same build folder.
exec 9>build/.lock
flock 9

PATH="$PWD/.venv/bin:$PATH" tools/pip.sh install --no-build-isolation -e .

# Type checkers and editors look beside the sources, not into site-packages.
wire=debug_server/opstep_server/wire
mkdir -p "$wire"
find "$wire" -type l -delete
for file in "$PWD"/build/cmake/proto/python/wire/*.py*; do
  name=$(basename "$file")
  [[ -e $wire/$name ]] || ln -s "$file" "$wire/$name"
done
