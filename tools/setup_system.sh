#!/usr/bin/env bash
# Install the Debian packages of the named groups that are missing: setup_system.sh GROUP...
set -euo pipefail

packages_of() {
  case "$1" in
    build) echo g++ cmake ninja-build ccache libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc libpng-dev libturbojpeg0-dev ;;
    python) python_packages ;;
    bench) echo valgrind ;;
    node) command -v node >/dev/null && command -v npm >/dev/null || echo nodejs npm ;;
    browser) echo chromium ;;
    emacs) echo emacs-nox elpa-dap-mode ;;
    *) echo "setup_system.sh: no group named '$1' (build, python, bench, node, browser, emacs)" >&2; exit 2 ;;
  esac
}

# Only the system's Python gets its parts from Debian; pyenv, conda and others bring their own.
python_packages() {
  command -v python3 >/dev/null || { echo python3 python3-venv python3-dev; return; }
  python3 - <<'PY'
import importlib.util, os, sys, sysconfig
if sys.base_prefix == "/usr":
    if importlib.util.find_spec("ensurepip") is None:
        print("python3-venv")
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        print("python3-dev")
PY
}

installed() { [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]; }

wanted=()
for group in "$@"; do
  names=$(packages_of "$group")
  for package in $names; do wanted+=("$package"); done
done

missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${wanted[@]}"; do installed "$package" || missing+=("$package"); done
elif ! command -v protoc >/dev/null || ! command -v grpc_cpp_plugin >/dev/null; then
  missing=("${wanted[@]}")
fi
[[ ${#missing[@]} -eq 0 ]] && exit 0

give_up() {
  echo "opstep needs Debian packages that are missing, and $1." >&2
  echo "Install them by hand and run make again:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
}

command -v apt-get >/dev/null || give_up "this machine has no apt-get"
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || give_up "you are neither root nor is there sudo"
  as_root=(sudo)
fi

echo "Missing Debian packages: ${missing[*]}"
# Here, because the password cannot be asked for while the output goes to a log.
[[ ${#as_root[@]} -eq 0 ]] || sudo -v || give_up "sudo was refused"
apt() {
  "$(dirname "$0")/progress.sh" "$1" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 -q -y "${@:2}"
}
# A fresh list first: a stale one names package files that are gone from the mirror.
apt "Updating the list of Debian packages" update || true
apt "Installing Debian packages" install --no-install-recommends "${missing[@]}" ||
  give_up "apt-get could not install them"
