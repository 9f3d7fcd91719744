#!/usr/bin/env bash
# Check each C++ file by itself: precompiled headers and files compiled in groups hide a forgotten #include.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/includes
tools/progress.sh "Setting up the check of #includes" cmake -S . -B $folder -G Ninja -DOPSTEP_PRECOMPILE=OFF -DOPSTEP_UNITY=OFF \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$PWD/tools/check_only.sh" \
  -DCMAKE_PREFIX_PATH="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')"
mapfile -t objects < <(ninja -C $folder -t targets all | sed -n 's|^\(executor/CMakeFiles/opstep_[^:]*\.cc\.o\):.*|\1|p')
tools/progress.sh "Checking the #includes of ${#objects[@]} C++ files" cmake --build $folder --target "${objects[@]}"
