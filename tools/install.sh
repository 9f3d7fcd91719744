#!/usr/bin/env bash
# install.sh editable: build all and install the packages editable into .venv.
# install.sh native:   after that, bring the extension and the generated Python up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
# Clones share compiled files.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=1

# Two builds at once would write to the same build folder.
mkdir -p build
exec 9>build/.lock
flock 9

install_editable() { tools/pip.sh install --no-build-isolation -e .; }

if [[ $1 == editable ]]; then
  install_editable
else
  log=build/install.log
  cmake --build build/cmake
  site=$(python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')
  # ALWAYS: otherwise cmake treats files made within the same second as unchanged.
  CMAKE_INSTALL_ALWAYS=1 cmake --install build/cmake --prefix "$site" --strip >"$log" || { cat "$log" >&2; exit 1; }
  # The editable install finds only modules that existed when it was made.
  new=$(sed "s|^$site/||" build/cmake/install_manifest.txt | grep -vxFf <(cut -d, -f1 "$site"/opstep-*.dist-info/RECORD) || true)
  [[ -z $new ]] || install_editable
fi

# Type checkers and editors look beside the sources, not into site-packages.
wire=debug_server/opstep_server/wire
mkdir -p "$wire"
find "$wire" -type l -delete
for file in "$PWD"/build/cmake/proto/python/wire/*.py*; do
  name=$(basename "$file")
  [[ -e $wire/$name ]] || ln -s "$file" "$wire/$name"
done
