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

install_playwright() {
  [ -x "$python" ] || fail "no Python at $python: run 'make build' first, or set OPSTEP_PYTHON"
  if "$python" -c "import playwright" 2>/dev/null; then return; fi
  "$python" -m pip install --quiet "playwright==$PLAYWRIGHT" ||
    fail "pip could not install playwright $PLAYWRIGHT into $python"
}

install_code_server() {
  local want="$CODE_SERVER node $NODE $arch" dir="$cache/code-server-$CODE_SERVER"
  if [ "$(cat "$dir/.done" 2>/dev/null)" = "$want" ]; then return; fi
  echo "installing code-server $CODE_SERVER into $dir (about a minute)" >&2
  rm -rf "$dir"
  mkdir -p "$dir"
  local npm=(npm --no-audit --no-fund --loglevel=error --ignore-scripts)
  # code-server carries its own shrinkwrap files, so these two pins fix every version.
  echo '{"private": true}' >"$dir/package.json"
  (
    cd "$dir" &&
      "${npm[@]}" install "code-server@$CODE_SERVER" "node-linux-$arch@$NODE" &&
      "${npm[@]}" --prefix node_modules/code-server/lib/vscode install --omit=dev
  ) >&2 || fail "npm could not install code-server $CODE_SERVER"
  ln -sfn "node_modules/node-linux-$arch/bin/node" "$dir/node"
  ln -sfn node_modules/code-server/out/node/entry.js "$dir/entry.js"
  "$dir/node" "$dir/entry.js" --config "$dir/config.yaml" --version >&2 ||
    fail "the installed code-server does not start"
  echo "$want" >"$dir/.done"
}

mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9 # two test runs at once must not install over each other
"$root/tools/setup_system.sh" node browser
install_code_server
ln -sfn "code-server-$CODE_SERVER" "$cache/current"
install_playwright
