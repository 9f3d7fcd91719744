#!/usr/bin/env bash
# sanitize.sh [address|thread]...: the C++ tests and a debugging session under sanitizers; both kinds by
# default. Each has its own build folder, build/sanitize-KIND. A report is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

sanitize() {
  local kind=$1 flags=$2 library=$3 folder=build/sanitize-$1 log=build/sanitize-$1.log
  echo "Building with the $kind sanitizer"
  # Little optimisation and only line numbers: compiling takes most of the build's time.
  # The extension takes the sanitizer's functions from the preloaded library.
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" \
    -DOPSTEP_WERROR=OFF \
    -DCMAKE_PREFIX_PATH="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')" \
    -DCMAKE_CXX_FLAGS="$flags -fno-omit-frame-pointer" >"$log" || { cat "$log" >&2; return 1; }
  nice cmake --build "$folder" --target _core cpp_tests

  local reports=$root/$folder/reports
  rm -rf "$reports"
  mkdir -p "$reports"
  # Libraries built without a sanitizer would give false reports.
  export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:log_path=$reports/asan"
  export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/ubsan"
  # exitcode=0: the run goes on after a report, and the reports are counted below.
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1:history_size=4:exitcode=0:log_path=$reports/tsan"

  # The sanitizer must report the faults of a faulty program.
  local fault
  c++ $flags -std=c++20 -O1 -g1 -pthread tests/sanitized/faults.cc -o "$folder/faults"
  setarch "$(uname -m)" -R "$folder/faults" || true
  for fault in "${@:4}"; do
    grep -qhs "$fault" "$reports"/* || { echo "the $kind sanitizer does not report: $fault" >&2; return 1; }
  done
  rm -f "$reports"/*

  local core preload
  core=$(echo "$root/$folder"/executor/_core.*.so)
  preload="$(gcc -print-file-name="$library") $(gcc -print-file-name=libstdc++.so.6)"
  # The thread sanitizer fails with randomised addresses.
  local failed=0
  setarch "$(uname -m)" -R ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 600 \
    -O "$root/$folder/tests.log" || failed=1
  setarch "$(uname -m)" -R .venv/bin/python tests/sanitized/scenario.py "$core" "$preload" \
    | tee "$folder/scenario.log" || failed=1

  if compgen -G "$reports/*" >/dev/null; then
    cat "$reports"/* >&2
    echo "$kind: $(cat "$reports"/* | grep -cE '^SUMMARY:|runtime error:') reports, in $reports" >&2
    return 1
  fi
  [[ $failed == 0 ]] || { echo "$kind: 0 reports, but something failed" >&2; return 1; }
  echo "$kind: $(grep -cE 'Test +#.*Passed' "$folder/tests.log") C++ test programs, $(grep -c ': done$' "$folder/scenario.log")" \
    "parts of the scenario, 0 reports"
}

mkdir -p build
[[ $# -gt 0 ]] || set -- address thread
for kind in "$@"; do
  case $kind in
    # GCC counts conversions of floats that do not fit, and last array members, separately.
    address) sanitize address "-fsanitize=address,undefined,float-cast-overflow,bounds-strict" libasan.so \
      "outside the range" "signed integer overflow" "shift exponent" "misaligned address" "heap-buffer-overflow" ;;
    thread) sanitize thread "-fsanitize=thread" libtsan.so "data race" ;;
    *) echo "there is no sanitizer '$kind': address or thread" >&2; exit 2 ;;
  esac
done
