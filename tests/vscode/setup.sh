#!/usr/bin/env bash
# Puts the newest and the oldest supported VS Code (as code-server), each with its node, and a browser
# driver where conftest.py finds them. Quick when nothing changed: one stamp file per set of versions.
#   OPSTEP_CACHE   where downloads are kept        (default ~/.cache/opstep)
#   OPSTEP_PYTHON  the Python that runs the tests  (default .venv/bin/python)
set -euo pipefail

# code-server, which is VS Code 1.x.y for its 4.x.y, and the node that it asks for.
NEWEST=(4.139.1 24.21.0)
OLDEST=(4.100.3 20.20.2) # "engines" in the extension's package.json
ARGON2=0.44.0            # with prebuilt binaries, instead of one that would have to be compiled
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
*) fail "no node package for $(uname -m); run the other tests with: pytest -m 'not vscode'" ;;
esac

install_playwright() {
  [ -x "$python" ] || fail "no Python at $python: run 'make build' first, or set OPSTEP_PYTHON"
  if "$python" -c "import playwright" 2>/dev/null; then return; fi
  "$python" -m pip install --quiet "playwright==$PLAYWRIGHT" ||
    fail "pip could not install playwright $PLAYWRIGHT into $python"
}

install_code_server() { # NAME VERSION NODE
  local want="$2 node $3 $arch" dir="$cache/code-server-$2"
  ln -sfn "code-server-$2" "$cache/$1"
  if [ "$(cat "$dir/.done" 2>/dev/null)" = "$want" ]; then return; fi
  echo "installing code-server $2 into $dir (about a minute)" >&2
  rm -rf "$dir"
  mkdir -p "$dir"
  local npm=(npm --no-audit --no-fund --loglevel=error --ignore-scripts)
  # code-server carries its own shrinkwrap files, so these pins fix every version.
  echo '{"private": true}' >"$dir/package.json"
  (
    cd "$dir" &&
      "${npm[@]}" install "code-server@$2" "node-linux-$arch@$3" "argon2@$ARGON2" &&
      rm -rf node_modules/code-server/node_modules/argon2 &&
      "${npm[@]}" --prefix node_modules/code-server/lib/vscode install --omit=dev
  ) >&2 || fail "npm could not install code-server $2"
  ln -sfn "node_modules/node-linux-$arch/bin/node" "$dir/node"
  ln -sfn node_modules/code-server/out/node/entry.js "$dir/entry.js"
  "$dir/node" "$dir/entry.js" --config "$dir/config.yaml" --version >&2 ||
    fail "the installed code-server $2 does not start"
  echo "$want" >"$dir/.done"
}

mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9 # two test runs at once must not install over each other
"$root/tools/setup_system.sh" node browser
install_code_server newest "${NEWEST[@]}"
install_code_server oldest "${OLDEST[@]}"
install_playwright
