#!/usr/bin/env bash
# Puts a real VS Code (code-server), its node, and a browser driver where test_vscode.py finds them.
# Quick when nothing changed: one stamp file per set of versions.
#   OPSTEP_CACHE   where downloads are kept        (default ~/.cache/opstep)
#   OPSTEP_PYTHON  the Python that runs the tests  (default .venv/bin/python)
set -euo pipefail

CODE_SERVER=4.139.1 # is VS Code 1.139.1
NODE=24.21.0        # what that code-server asks for
PLAYWRIGHT=1.65.0

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cache="${OPSTEP_CACHE:-$HOME/.cache/opstep}/vscode"
python="${OPSTEP_PYTHON:-$root/.venv/bin/python}"

fail() {
  echo "tests/vscode/setup.sh: $*" >&2
  exit 1
}

case "$(uname -m)" in
x86_64) arch=x64 ;;
aarch64) arch=arm64 ;;
*) fail "no node $NODE package for $(uname -m); run the other tests with: pytest -m 'not vscode'" ;;
esac

install_chromium() {
  if command -v chromium >/dev/null; then return; fi
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "chromium is missing: install it as root with: apt-get install chromium"
    sudo=(sudo)
  fi
  local apt=("${sudo[@]}" apt-get -o DPkg::Lock::Timeout=300 -qq)
  "${apt[@]}" install -y --no-install-recommends chromium >/dev/null 2>&1 ||
    { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends chromium; } >&2 ||
    fail "chromium could not be installed: install it by hand, then run this again"
}

install_playwright() {
  [ -x "$python" ] || fail "no Python at $python: run 'make build' first, or set OPSTEP_PYTHON"
  if "$python" -c "import playwright" 2>/dev/null; then return; fi
  "$python" -m pip install --quiet "playwright==$PLAYWRIGHT" ||
    fail "pip could not install playwright $PLAYWRIGHT into $python"
}

install_code_server() {
  local want="$CODE_SERVER node $NODE $arch" dir="$cache/code-server-$CODE_SERVER"
  if [ "$(cat "$dir/.done" 2>/dev/null)" = "$want" ]; then return; fi
  command -v npm >/dev/null || fail "npm is missing: install it with: apt-get install npm"
  echo "installing code-server $CODE_SERVER into $dir (about a minute)" >&2
  rm -rf "$dir"
  mkdir -p "$dir"
  local npm=(npm --no-audit --no-fund --loglevel=error --ignore-scripts)
  # code-server carries its own shrinkwrap files, so these two pins fix every version.
  echo '{"private": true}' >"$dir/package.json"
  (
    cd "$dir"
    "${npm[@]}" install "code-server@$CODE_SERVER" "node-linux-$arch@$NODE"
    "${npm[@]}" --prefix node_modules/code-server/lib/vscode install --omit=dev
  ) >&2 || fail "npm could not install code-server $CODE_SERVER"
  "$dir/node_modules/node-linux-$arch/bin/node" "$dir/node_modules/code-server/out/node/entry.js" --config "$dir/config.yaml" --version >&2 ||
    fail "the installed code-server does not start"
  ln -sfn "node_modules/node-linux-$arch/bin/node" "$dir/node"
  echo "$want" >"$dir/.done"
}

mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9 # two test runs at once must not install over each other
install_chromium
install_code_server
ln -sfn "code-server-$CODE_SERVER" "$cache/current"
install_playwright
