#!/usr/bin/env bash
# install.sh editable: build all and install the packages editable into .venv.
# install.sh native:   after that, bring the extension and the generated Python up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

# Two builds at once would write to the same build folder.
mkdir -p build
exec 9>build/.lock
flock 9

install_executor() {
  # -v: pip passes on how far ninja is. --no-deps: no index has opstep-server.
  tools/pip.sh "Compiling opstep" install -v --no-build-isolation --no-deps -e .
}

wire=debug_server/opstep_server/wire
generate_wire() {
  [[ -z $(find proto/*.proto tools/generate_wire.py debug_server/pyproject.toml -newer $wire/__init__.py 2>&1) ]] ||
    python tools/generate_wire.py --out $wire proto/*.proto
}

if [[ $1 == editable ]]; then
  generate_wire
  install_executor
  tools/pip.sh "Installing the debug server" install --no-build-isolation -e debug_server
else
  generate_wire
  log=build/install.log
  tools/progress.sh "Compiling opstep" cmake --build build/cmake
  site=$(python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')
  # ALWAYS: otherwise cmake treats files made within the same second as unchanged.
  CMAKE_INSTALL_ALWAYS=1 cmake --install build/cmake --prefix "$site" --strip >"$log" || { cat "$log" >&2; exit 1; }
  # The editable install finds only modules that existed when it was made.
  new=$(sed "s|^$site/||" build/cmake/install_manifest.txt | grep -vxFf <(cut -d, -f1 "$site"/opstep-*.dist-info/RECORD) || true)
  [[ -z $new ]] || install_executor
fi
