#!/usr/bin/env bash
# sanitize.sh [address|thread]...: the C++ tests and one debugging scenario under sanitizers; both if none
# is named. Each has a build folder of its own, build/sanitize-KIND. A report is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR=1

sanitize() {
  local kind=$1 flags=$2 library=$3 folder=build/sanitize-$1
  echo "Building with the $kind sanitizer"
  # The extension leaves the sanitizer's functions to the library that is preloaded.
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DOPSTEP_WERROR=OFF \
    -DCMAKE_PREFIX_PATH="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')" \
    -DCMAKE_CXX_FLAGS="$flags -fno-omit-frame-pointer" >"$folder.log" || { cat "$folder.log" >&2; return 1; }
  nice cmake --build "$folder" --target _core cpp_tests

  local reports=$root/$folder/reports
  rm -rf "$reports"
  mkdir -p "$reports"
  # Libraries that were built without a sanitizer would be reported for what cannot be seen of them.
  export ASAN_OPTIONS="detect_leaks=0:log_path=$reports/asan"
  export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/ubsan"
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1:history_size=4:log_path=$reports/tsan"
  # The thread sanitizer wants its own places in memory.
  setarch "$(uname -m)" -R ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 600

  local core
  core=$(echo "$root/$folder"/executor/_core.*.so)
  local preload
  preload="$(gcc -print-file-name="$library") $(gcc -print-file-name=libstdc++.so.6)"
  setarch "$(uname -m)" -R .venv/bin/python tests/sanitized/scenario.py "$core" "$preload"

  if compgen -G "$reports/*" >/dev/null; then
    cat "$reports"/* >&2
    echo "the $kind sanitizer has something to report: see $reports" >&2
    return 1
  fi
  echo "$kind: 0 reports"
}

mkdir -p build
[[ $# -gt 0 ]] || set -- address thread
for kind in "$@"; do
  case $kind in
    address) sanitize address "-fsanitize=address,undefined" libasan.so ;;
    thread) sanitize thread "-fsanitize=thread" libtsan.so ;;
    *) echo "there is no sanitizer '$kind': address or thread" >&2; exit 2 ;;
  esac
done
